#pragma once

#include "common/clock.h"
#include "common/log.h"
#include "common/result.h"
#include "controller/reconcile/observed.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gnn::app {

/// Variables that stand in for --kubeconfig, --namespace (one) and --identity where those are not
/// given (docs/operations.md).
inline constexpr const char* kEnvKubeconfig = "GNN_CONTROLLER_KUBECONFIG";
inline constexpr const char* kEnvNamespace = "GNN_CONTROLLER_NAMESPACE";
inline constexpr const char* kEnvIdentity = "POD_NAME";

enum class Command { Run, Release, Wait, Version };

enum class ProgressMode {
  PodIp,  ///< ask node 0's agent by its pod's address
  Off,
};

/// What the command line, the environment and the file of --config say.
struct Options {
  Command command = Command::Run;
  std::string kubeconfig;  ///< empty: the pod's service account, else $KUBECONFIG, ~/.kube/config
  std::string context;
  std::vector<std::string> namespaces;  ///< empty: all
  int64_t workers = 8;
  ProgressMode progress = ProgressMode::PodIp;
  bool job_network_policy = true;
  reconcile::JobFence job_fence;
  std::string bind_address = "0.0.0.0:8080";  ///< /metrics, /healthz, /readyz
  LogOptions log{.format = LogFormat::Json, .level = LogLevel::Info};

  bool leader_elect = false;
  std::string lease_namespace;  ///< empty: the namespace of the credentials
  std::string lease_name = "gnn-controller";
  std::string identity;  ///< empty: the host's name and a random part
  Duration lease_duration = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);
  Duration retry_period = std::chrono::seconds(2);

  std::string wait_job;  ///< `wait`: name of the GNNJob, in the one --namespace
  Duration wait_timeout = std::chrono::seconds(300);

  /// A watch that hears nothing for so long is dead; the API server's bookmarks come each minute.
  Duration watch_idle_timeout = std::chrono::seconds(90);
};

/// What is to be done, or text for the user and the exit code to end with.
struct ParsedOptions {
  Options options;
  bool finished = false;  ///< --help was asked for, or the line is wrong: `text` says it
  int exit_code = 0;
  std::string text;
};

[[nodiscard]] ParsedOptions parse_options(int argc, const char* const* argv);

/// {"metricsFrom": [NetworkPolicyPeer...], "egress": [NetworkPolicyEgressRule...]}, both optional.
[[nodiscard]] Result<reconcile::JobFence> parse_job_fence(const std::string& json);

struct HostPort {
  std::string host;
  int port = 0;  ///< 0: any free one
};
/// "HOST:PORT", ":PORT" (all addresses) or "[IPV6]:PORT".
[[nodiscard]] Result<HostPort> parse_host_port(const std::string& text);

}  // namespace gnn::app
