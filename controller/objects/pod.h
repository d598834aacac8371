#pragma once

#include "common/api/gnn_job.h"
#include "controller/objects/meta.h"
#include "controller/objects/pod_group.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::objects {

struct ContainerPort {
  std::string name;
  int64_t container_port = 0;
  friend bool operator==(const ContainerPort&, const ContainerPort&) = default;
};

/// An HTTP probe of a named or numbered port.
struct HttpProbe {
  std::string path;
  std::string port;  ///< a port's name
  int64_t initial_delay_seconds = 0;
  int64_t period_seconds = 10;
  int64_t timeout_seconds = 1;
  int64_t failure_threshold = 3;
  friend bool operator==(const HttpProbe&, const HttpProbe&) = default;
};

/// What the Pod Security Standard "restricted" requires of a container.
struct ContainerSecurity {
  bool allow_privilege_escalation = false;
  bool read_only_root_filesystem = true;
  std::vector<std::string> drop_capabilities{"ALL"};
  friend bool operator==(const ContainerSecurity&, const ContainerSecurity&) = default;
};

struct Container {
  std::string name;
  std::string image;
  std::string image_pull_policy;
  std::vector<std::string> command;
  std::vector<std::string> args;
  std::vector<api::EnvVar> env;
  std::vector<ContainerPort> ports;
  api::Resources resources;
  std::vector<api::VolumeMount> volume_mounts;
  std::optional<HttpProbe> readiness_probe;
  std::string termination_message_path;
  std::string termination_message_policy;
  ContainerSecurity security;
  friend bool operator==(const Container&, const Container&) = default;
};

/// What the Pod Security Standard "restricted" requires of a pod.
struct PodSecurityContext {
  bool run_as_non_root = true;
  std::optional<int64_t> run_as_user;  ///< each absent: the cluster's choice, or the image's
  std::optional<int64_t> run_as_group;
  std::optional<int64_t> fs_group;
  /// OnRootMismatch: a volume that has the group already is not walked file by file at each start.
  std::string fs_group_change_policy = "OnRootMismatch";
  std::string seccomp_profile = "RuntimeDefault";
  friend bool operator==(const PodSecurityContext&, const PodSecurityContext&) = default;
};

struct TopologySpreadConstraint {
  int64_t max_skew = 1;
  std::string topology_key;
  std::string when_unsatisfiable;
  std::map<std::string, std::string> match_labels;
  friend bool operator==(const TopologySpreadConstraint&, const TopologySpreadConstraint&) =
      default;
};

/// A key of a Secret as a file of that name, beside those of a ConfigMap in one volume.
struct SecretFile {
  std::string volume;
  std::string secret;
  std::string key;
  friend bool operator==(const SecretFile&, const SecretFile&) = default;
};

/// encode() writes all of it but memory_limit; decode_pod() reads only node_name,
/// termination_grace_period_seconds, active_deadline_seconds, group and memory_limit, so that 10,000
/// pods fit the cache.
struct PodSpec {
  std::string node_name;
  std::string hostname;
  std::string subdomain;
  std::string restart_policy;
  std::optional<int64_t> termination_grace_period_seconds;
  std::optional<int64_t> active_deadline_seconds;
  bool automount_service_account_token = false;
  bool enable_service_links = false;
  std::string priority_class_name;
  std::string scheduler_name;
  std::optional<GroupMembership> group;
  /// Of the worker's container, as the API server admitted it: a LimitRange may have set it.
  std::string memory_limit;
  std::vector<std::string> scheduling_gates;  ///< names
  std::vector<std::string> image_pull_secrets;
  std::vector<Container> containers;
  std::vector<api::Volume> volumes;
  /// Puts the key of a Secret into the volume of a ConfigMap, as another file.
  std::optional<SecretFile> secret_file;
  std::map<std::string, std::string> node_selector;
  std::vector<api::Toleration> tolerations;
  std::optional<api::Affinity> affinity;
  /// Kubernetes nodes that the pod must not be placed on; part of the affinity in JSON.
  std::vector<std::string> avoided_node_names;
  std::vector<TopologySpreadConstraint> topology_spread_constraints;
  PodSecurityContext security;
  friend bool operator==(const PodSpec&, const PodSpec&) = default;
};

struct PodCondition {
  std::string type;
  std::string status;
  std::string reason;
  std::string message;
  std::optional<TimePoint> last_transition_time;
  friend bool operator==(const PodCondition&, const PodCondition&) = default;
};

struct ContainerWaiting {
  std::string reason;
  std::string message;
  friend bool operator==(const ContainerWaiting&, const ContainerWaiting&) = default;
};

struct ContainerRunning {
  std::optional<TimePoint> started_at;
  friend bool operator==(const ContainerRunning&, const ContainerRunning&) = default;
};

struct ContainerTerminated {
  int64_t exit_code = 0;
  int64_t signal = 0;
  std::string reason;
  std::string message;  ///< written by the container: hostile input
  std::optional<TimePoint> started_at;
  std::optional<TimePoint> finished_at;
  friend bool operator==(const ContainerTerminated&, const ContainerTerminated&) = default;
};

/// Exactly one of the three, or none before the kubelet's first report.
struct ContainerState {
  std::optional<ContainerWaiting> waiting;
  std::optional<ContainerRunning> running;
  std::optional<ContainerTerminated> terminated;
  friend bool operator==(const ContainerState&, const ContainerState&) = default;
};

struct ContainerStatus {
  std::string name;
  bool ready = false;
  ContainerState state;
  friend bool operator==(const ContainerStatus&, const ContainerStatus&) = default;
};

struct PodStatus {
  std::string phase;  ///< Pending | Running | Succeeded | Failed | Unknown
  std::string reason;
  std::string message;
  std::string pod_ip;
  std::optional<TimePoint> start_time;
  std::vector<PodCondition> conditions;
  std::vector<ContainerStatus> init_container_statuses;
  std::vector<ContainerStatus> container_statuses;
  friend bool operator==(const PodStatus&, const PodStatus&) = default;
};

struct Pod {
  ObjectMeta metadata;
  PodSpec spec;
  PodStatus status;
  friend bool operator==(const Pod&, const Pod&) = default;
};

/// The condition of that type, or nullptr.
[[nodiscard]] const PodCondition* find_condition(const Pod& pod, std::string_view type);

[[nodiscard]] Result<Pod> decode_pod(const Json& json);
/// For create: metadata and spec, no status.
[[nodiscard]] Json encode(const Pod& pod);

template <>
struct ResourceTraits<Pod> {
  static constexpr std::string_view kGroup = "";
  static constexpr std::string_view kVersion = "v1";
  static constexpr std::string_view kKind = "Pod";
  static constexpr std::string_view kPlural = "pods";
  [[nodiscard]] static Result<Pod> decode(const Json& json) { return decode_pod(json); }
};

}  // namespace gnn::objects
