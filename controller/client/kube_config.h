#pragma once

#include "common/clock.h"
#include "common/guarded.h"
#include "common/result.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace gnn::client {

/// A PEM text, given as such or as a file, which is read again at each use, so that rotation needs
/// no restart.
struct PemSource {
  std::string file;
  std::string text;

  [[nodiscard]] bool empty() const { return file.empty() && text.empty(); }
  [[nodiscard]] Result<std::string> load() const;
};

/// The API server's address and our credentials.
struct KubeConfig {
  std::string server;  ///< https://HOST[:PORT][/prefix]; http only for loopback
  PemSource ca;        ///< empty: the system's roots
  PemSource client_certificate;
  PemSource client_key;
  std::string token;
  std::string token_file;  ///< takes precedence over `token`
  std::string namespace_;  ///< the context's, or the pod's own
};

/// The pod's service account: KUBERNETES_SERVICE_HOST and _PORT and the files under `directory`.
/// Errors: NotFound if the variables are not set, that is, outside a pod.
[[nodiscard]] Result<KubeConfig> in_cluster_config(
    const std::optional<std::string>& host,
    const std::optional<std::string>& port,
    const std::string& directory = "/var/run/secrets/kubernetes.io/serviceaccount"
);

/// Reads a kubeconfig file. `context` empty: its current-context. File names are relative to its
/// folder.
/// Errors: Configuration, naming file and entry, for what is missing or not supported (exec and
/// auth-provider plugins, basic auth, insecure-skip-tls-verify, proxies); Io.
[[nodiscard]] Result<KubeConfig> load_kubeconfig(
    const std::string& path, const std::string& context = {}
);

/// The same from text; file names are relative to `directory`.
[[nodiscard]] Result<KubeConfig> parse_kubeconfig(
    std::string_view text, const std::string& directory, const std::string& context = {}
);

/// The bearer token of a KubeConfig. A token file is read again every minute, and at once after the
/// server has refused the token.
/// Threads: safe from any thread.
class TokenSource {
 public:
  TokenSource(const KubeConfig& config, Clock& clock);

  /// The token; empty if there is none. If the file cannot be read, the last token stays.
  [[nodiscard]] std::string token();
  /// Reads the file again, after a 401. Returns whether the token changed.
  bool refresh_after_refusal();

 private:
  struct Held {
    std::string token{};
    std::optional<MonotonicPoint> loaded_at{};
  };

  void reload(Held& held) const;

  Clock& clock_;
  const std::string file_;
  Guarded<Held> held_;
};

}  // namespace gnn::client
