#pragma once

#include "common/clock.h"
#include "common/result.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace gnn::client {

/// A PEM text that is either given or in a file; a file is read again whenever it is used, so that
/// rotation needs no restart.
struct PemSource {
  std::string file;
  std::string text;

  [[nodiscard]] bool empty() const { return file.empty() && text.empty(); }
  [[nodiscard]] Result<std::string> load() const;
};

/// Where the API server is and who we are.
struct KubeConfig {
  std::string server;  ///< https://HOST[:PORT][/prefix]; http only for loopback
  PemSource ca;        ///< empty: the system's roots
  PemSource client_certificate;
  PemSource client_key;
  std::string token;
  std::string token_file;  ///< wins over `token`
  std::string namespace_;  ///< the context's, or the pod's own
};

/// The pod's service account: KUBERNETES_SERVICE_HOST and _PORT and the files under `directory`.
/// Errors: NotFound if the environment says that this is no pod.
[[nodiscard]] Result<KubeConfig> in_cluster_config(
    const std::optional<std::string>& host,
    const std::optional<std::string>& port,
    const std::string& directory = "/var/run/secrets/kubernetes.io/serviceaccount"
);

/// Reads a kubeconfig file. `context` empty: its current-context. Relative file names are relative
/// to its folder. Errors, each naming file and entry: Configuration for what we do not do (exec
/// and auth-provider plugins, basic auth, insecure-skip-tls-verify, proxies) and for what is
/// missing; Io.
[[nodiscard]] Result<KubeConfig> load_kubeconfig(
    const std::string& path, const std::string& context = {}
);

/// The same from text; `directory` is what relative file names are relative to.
[[nodiscard]] Result<KubeConfig> parse_kubeconfig(
    std::string_view text, const std::string& directory, const std::string& context = {}
);

/// The bearer token of a KubeConfig: a file is read again after a minute, and at once when the
/// server refused the token. Threading: safe from any thread.
class TokenSource {
 public:
  TokenSource(const KubeConfig& config, Clock& clock);

  /// The token; empty if there is none. A file that cannot be read keeps the last token.
  [[nodiscard]] std::string token();
  /// The server answered 401: reads the file now. Returns whether the token changed.
  bool refresh_after_refusal();

 private:
  void reload_locked();

  Clock& clock_;
  std::string file_;
  std::mutex mutex_;
  std::string token_;
  std::optional<MonotonicPoint> loaded_at_;
};

}  // namespace gnn::client
