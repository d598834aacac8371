#pragma once

#include "common/api/pod_metadata.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/result.h"
#include "controller/reconcile/observed.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gnn::app {

/// Environment variables that set --kubeconfig, --namespace (one) and --identity where the command
/// line does not (docs/operations.md).
inline constexpr const char* kEnvKubeconfig = "GNN_CONTROLLER_KUBECONFIG";
inline constexpr const char* kEnvNamespace = "GNN_CONTROLLER_NAMESPACE";
inline constexpr const char* kEnvIdentity = "POD_NAME";

enum class Command { Run, Release, Wait, Validate, Version };

enum class ProgressMode {
  PodIp,  ///< ask node 0's agent at its pod's IP
  Off,
};

/// The options from the command line, the environment and the file of --config.
struct Options {
  Command command = Command::Run;
  std::string kubeconfig;  ///< empty: the pod's service account, else $KUBECONFIG, ~/.kube/config
  std::string context;
  std::vector<std::string> namespaces;  ///< empty: all
  int64_t workers = 8;
  int64_t cache_memory_mib = 64;  ///< for all cached objects together; see runtime::MemoryBudget
  ProgressMode progress = ProgressMode::PodIp;
  Duration progress_interval = std::chrono::seconds(5);  ///< the shortest; see ProgressPace
  bool job_network_policy = true;
  reconcile::JobFence job_fence;
  std::vector<objects::GroupApi> gang_providers;  ///< the APIs for groups of pods that may be used
  /// Schedulers whose pods are grouped so with scheduling.provider Auto.
  std::vector<std::string> coscheduling_schedulers;
  std::vector<std::string> volcano_schedulers = {"volcano"};
  std::optional<reconcile::VolcanoQueues> volcano_queues;  ///< absent: jobs may name any
  bool kueue = false;                                      ///< whether Kueue may be used
  bool kueue_manage_jobs_without_queue_name = false;
  api::AllowedKeys job_allowed_keys;
  reconcile::PodUser job_pod_user = reconcile::PodUser::OfImages;
  std::string bind_address = ":8080";         ///< /metrics
  std::string health_bind_address = ":8081";  ///< /healthz, /readyz
  LogOptions log{.format = LogFormat::Json, .level = LogLevel::Info};

  bool leader_elect = false;
  std::string lease_namespace;  ///< empty: the namespace of the credentials
  std::string lease_name = "gnn-controller";
  std::string identity;  ///< empty: the host's name; a random suffix is added either way
  Duration lease_duration = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);
  Duration retry_period = std::chrono::seconds(2);

  /// `release`: deletes the jobs' Workloads of Kueue and touches no pod.
  bool release_only_workloads = false;

  std::string wait_job;  ///< `wait`: name of the GNNJob, in the only --namespace
  Duration wait_timeout = std::chrono::seconds(300);

  std::vector<std::string> manifests;  ///< `validate`: files and folders, "-" for standard input
  bool recursive = false;              ///< `validate`: folders with all that is below them

  /// A watch is reconnected after this much silence. The API server sends a bookmark every minute.
  Duration watch_idle_timeout = std::chrono::seconds(90);
};

/// The options, or what to print and the exit code to end with.
struct ParsedOptions {
  Options options;
  bool finished = false;  ///< --help, or an invalid command line: print `text` and exit
  int exit_code = 0;
  std::string text;
};

[[nodiscard]] ParsedOptions parse_options(int argc, const char* const* argv);

/// {"NAMESPACE": ["QUEUE"...]...}
[[nodiscard]] Result<reconcile::VolcanoQueues> parse_volcano_queues(const std::string& json);

/// {"metricsFrom": [NetworkPolicyPeer...], "egress": [NetworkPolicyEgressRule...]}, both optional.
[[nodiscard]] Result<reconcile::JobFence> parse_job_fence(const std::string& json);

}  // namespace gnn::app
