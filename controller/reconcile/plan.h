#pragma once

#include "common/api/gnn_job.h"
#include "common/clock.h"
#include "controller/objects/config_map.h"
#include "controller/objects/network_policy.h"
#include "controller/objects/pod.h"
#include "controller/objects/service.h"
#include "controller/reconcile/observed.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// The decisions of the controller. plan() is total and deterministic and does no I/O; the executor
/// carries out what it returns and decides nothing.
namespace gnn::reconcile {

// Creating: if an object of the name is there already and belongs to this job (owner UID), that is
// success; if it belongs to somebody else, a refusal of kind NameTaken. Other refusals (403, 400,
// 422) are kept with their time for the next pass. In a run of CreatePods order does not matter.
struct CreatePod {
  objects::Pod pod;
};
struct CreateService {
  objects::Service service;
};
struct CreateConfigMap {
  objects::ConfigMap config_map;
};
struct CreateNetworkPolicy {
  objects::NetworkPolicy network_policy;
};

// Merge patches of the whole spec; "not found" means that the next pass creates it.
struct UpdateService {
  objects::Service service;
};
struct UpdateNetworkPolicy {
  objects::NetworkPolicy network_policy;
};

/// With the UID as precondition; "not found" and a failed precondition are success.
struct DeletePod {
  std::string name;
  std::string uid;
  std::optional<std::int64_t> grace_period_seconds;  ///< absent: the pod's own; 0: its node is lost
};

/// Takes our finalizer (contract::kPodFinalizer) off the pod with this UID; "not found" is success.
struct ReleasePod {
  std::string name;
  std::string uid;
  std::vector<std::string> finalizers;  ///< those that were seen; the others stay
};

/// Makes the pod's kubelet end it and keeps the object, and with it the logs: a deadline that has
/// passed. With the UID as precondition; "not found" and a failed precondition are success.
struct StopPod {
  std::string name;
  std::string uid;
};

/// With the UID as precondition and background propagation.
struct DeleteJob {
  std::string uid;
};

using Action = std::variant<
    CreateService,
    CreateConfigMap,
    CreateNetworkPolicy,
    UpdateService,
    UpdateNetworkPolicy,
    CreatePod,
    ReleasePod,
    DeletePod,
    StopPod,
    DeleteJob>;

/// What ranks that were restarted inside their pods are called, in an event and in the metrics.
inline constexpr std::string_view kRestartedInPlace = "RestartedInPlace";

enum class EventType { Normal, Warning };

struct EventRecord {
  EventType type = EventType::Normal;
  std::string reason;
  std::string message;
  friend bool operator==(const EventRecord&, const EventRecord&) = default;
};

struct Plan {
  /// In this order; stop at the first error that is worth a retry, then write no status.
  std::vector<Action> actions;
  /// Written after the actions, with the observed resourceVersion as precondition, if it differs
  /// from the observed status.
  api::GnnJobStatus status;
  /// The status tells of the actions as done: it is not written if one of them is refused, and the
  /// next pass, which sees the refusal, says that instead.
  bool status_needs_success = false;
  /// Emitted after the status is written, or when there was nothing to write.
  std::vector<EventRecord> events;
  /// Look again after this even if nothing happens.
  std::optional<Duration> requeue_after;
  /// For Observed of the next pass.
  std::optional<TimePoint> awaits_culprit_since;
};

[[nodiscard]] Plan plan(const Observed& observed);

/// For pods with our label whose job is gone: takes our finalizer off, so that nothing wedges.
[[nodiscard]] std::vector<Action> release_orphans(const std::vector<objects::Pod>& pods);

/// Whether /progress of node 0 is worth asking for, and where: the pod's IP while it runs.
[[nodiscard]] std::optional<std::string> progress_address(
    const api::GnnJob& job, const std::vector<objects::Pod>& pods
);

}  // namespace gnn::reconcile
