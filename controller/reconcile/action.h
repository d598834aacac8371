#pragma once

#include "controller/objects/config_map.h"
#include "controller/objects/network_policy.h"
#include "controller/objects/pod.h"
#include "controller/objects/pod_group.h"
#include "controller/objects/secret.h"
#include "controller/objects/service.h"
#include "controller/objects/workload.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

/// What plan() wants done. All of it may be done twice.
namespace gnn::reconcile {

// Create: an existing object of the name is success if this job owns it (owner UID), else a refusal
// of kind NameTaken. Other refusals (403, 400, 422) are kept with their time for the next pass. The
// order within a run of CreatePods does not matter.

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

struct CreateGroup {
  objects::PodGroup group;
};

/// Puts a fresh data key into it; a plan holds no secrets. A Secret of that name that is there already
/// is never taken for ours: it is an error that is worth a retry, by another name.
struct CreateDataKey {
  objects::Secret secret;
};

struct CreateWorkload {
  objects::Workload workload;
};

// The rest has the UID as precondition: another object of the name is left alone. "Not found" and a
// failed precondition are success.

// Update: replaces the labels and each field of the spec, with all that is in them.

struct UpdateService {
  objects::Service service;  ///< with the UID of the present one
};
struct UpdateNetworkPolicy {
  objects::NetworkPolicy network_policy;  ///< with the UID of the present one
};

// Delete: with the resourceVersion as precondition, too, so that nothing is deleted for what a stale cache
// says of it. If it has changed, it is read again, and that is an error worth a retry.

struct DeletePod {
  std::string name;
  std::string uid;
  std::optional<int64_t> grace_period_seconds;  ///< absent: the pod's own; 0: its machine is lost
  std::string resource_version{};
};
[[nodiscard]] inline DeletePod delete_pod(
    const objects::ObjectMeta& meta, std::optional<int64_t> grace_period_seconds = std::nullopt
) {
  return {meta.name, meta.uid, grace_period_seconds, meta.resource_version};
}

struct DeleteGroup {
  objects::GroupApi api;
  std::string name;
  std::string uid;
  std::string resource_version{};
};

// Each writes the named part of a Workload, with the resourceVersion as precondition, too.

/// Its spec and annotations; the PodSets only if they have templates.
struct UpdateWorkload {
  objects::Workload workload;
};
/// Its conditions, and the end of its admission if it has none.
struct UpdateWorkloadStatus {
  objects::Workload workload;
};
/// Its owners and labels.
struct AdoptWorkload {
  objects::Workload workload;
};

/// Removes Kueue's finalizer.
struct ReleaseWorkload {
  objects::Workload workload;
};
struct DeleteWorkload {
  objects::Workload workload;
};

// ReleasePod and StopPod go by the UID alone: what they are for depends on the job's status, which is written
// first, and not on what a pod says meanwhile.

/// Removes our finalizer (contract::kPodFinalizer).
struct ReleasePod {
  std::string name;
  std::string uid;
};

/// Puts back the labels by which we watch, group and address a pod, if it is as it was seen: one that its owner has
/// left since is none of ours.
struct RelabelPod {
  std::string name;
  std::string uid;
  std::string resource_version{};
  std::map<std::string, std::string> labels;
};

/// Has the kubelet stop the pod, by a deadline that has passed. The object stays, and with it the
/// logs.
struct StopPod {
  std::string name;
  std::string uid;
};

/// With background propagation.
struct DeleteJob {
  std::string uid;
  std::string resource_version{};
};

using Action = std::variant<
    CreateService,
    CreateConfigMap,
    CreateNetworkPolicy,
    CreateDataKey,
    CreateGroup,
    CreateWorkload,
    UpdateService,
    UpdateNetworkPolicy,
    CreatePod,
    RelabelPod,
    ReleasePod,
    DeletePod,
    DeleteGroup,
    UpdateWorkload,
    UpdateWorkloadStatus,
    AdoptWorkload,
    ReleaseWorkload,
    DeleteWorkload,
    StopPod,
    DeleteJob>;

}  // namespace gnn::reconcile
