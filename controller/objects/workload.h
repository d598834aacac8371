#pragma once

#include "common/api/gnn_job.h"
#include "controller/objects/meta.h"
#include "controller/objects/pod.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The objects of Kueue (group kueue.x-k8s.io) by which a job waits for its share of the cluster.
namespace gnn::objects {

/// Names of Kueue's that this project reads or writes.
namespace kueue {
inline constexpr std::string_view kGroup = "kueue.x-k8s.io";
// Labels of a job.
inline constexpr std::string_view kLabelQueue = "kueue.x-k8s.io/queue-name";
inline constexpr std::string_view kLabelPriorityClass = "kueue.x-k8s.io/priority-class";
inline constexpr std::string_view kLabelPrebuilt = "kueue.x-k8s.io/prebuilt-workload-name";
inline constexpr std::array kJobLabels = {kLabelQueue, kLabelPriorityClass, kLabelPrebuilt};
// Of a Workload.
inline constexpr std::string_view kLabelJobUid = "kueue.x-k8s.io/job-uid";
inline constexpr std::string_view kFinalizer = "kueue.x-k8s.io/resource-in-use";
// Of a pod.
inline constexpr std::string_view kLabelPodSet = "kueue.x-k8s.io/podset";
inline constexpr std::string_view kAnnotationWorkload = "kueue.x-k8s.io/workload";
inline constexpr std::string_view kTopologyGate = "kueue.x-k8s.io/topology";
inline constexpr std::string_view kRequiredTopology = "kueue.x-k8s.io/podset-required-topology";
inline constexpr std::string_view kPreferredTopology = "kueue.x-k8s.io/podset-preferred-topology";
inline constexpr std::string_view kUnconstrainedTopology =
    "kueue.x-k8s.io/podset-unconstrained-topology";
/// spec.managedBy of a job that Kueue runs in another cluster.
inline constexpr std::string_view kMultiKueue = "kueue.x-k8s.io/multikueue";
// Conditions of a Workload.
inline constexpr std::string_view kQuotaReserved = "QuotaReserved";
inline constexpr std::string_view kAdmitted = "Admitted";
inline constexpr std::string_view kEvicted = "Evicted";
inline constexpr std::string_view kFinished = "Finished";
inline constexpr std::string_view kPodsReady = "PodsReady";
inline constexpr std::string_view kRequeued = "Requeued";
}  // namespace kueue

/// The versions of Kueue's API, the preferred one first.
enum class KueueVersion { V1Beta2, V1Beta1 };
inline constexpr std::array kKueueVersions = {KueueVersion::V1Beta2, KueueVersion::V1Beta1};

/// "v1beta2"
[[nodiscard]] std::string_view to_string(KueueVersion version);
/// "kueue.x-k8s.io/v1beta2"
[[nodiscard]] std::string api_version_of(KueueVersion version);

/// How the pods of a PodSet are to lie to each other; at most one of the first three is set.
struct TopologyRequest {
  std::optional<std::string> required;
  std::optional<std::string> preferred;
  std::optional<bool> unconstrained;
  std::string pod_index_label;
  friend bool operator==(const TopologyRequest&, const TopologyRequest&) = default;
};

/// Pods that are alike. The template is written only.
struct PodSet {
  std::string name;
  int64_t count = 0;
  Json pod_template;
  api::ResourceList requests;  ///< what the template's containers request in all
  std::optional<TopologyRequest> topology;
  friend bool operator==(const PodSet&, const PodSet&) = default;
};

/// The class by which workloads overtake each other.
struct PriorityClass {
  bool of_pods = false;  ///< of Kubernetes; else Kueue's WorkloadPriorityClass
  std::string name;      ///< empty: none
  friend bool operator==(const PriorityClass&, const PriorityClass&) = default;
};

struct WorkloadCondition {
  std::string type;
  std::string status;
  std::string reason;
  std::string message;
  std::optional<TimePoint> last_transition_time;
  int64_t observed_generation = 0;
  friend bool operator==(const WorkloadCondition&, const WorkloadCondition&) = default;
};

/// What was assigned to the pods of a PodSet.
struct PodSetAssignment {
  std::string name;
  std::vector<std::string> flavors;  ///< names of ResourceFlavors, each once, in order
  std::optional<int64_t> count;
  bool has_topology = false;  ///< it is said on which machines the pods belong
  friend bool operator==(const PodSetAssignment&, const PodSetAssignment&) = default;
};

struct Admission {
  std::string cluster_queue;
  std::vector<PodSetAssignment> pod_sets;
  friend bool operator==(const Admission&, const Admission&) = default;
};

/// What an admission check wants of the pods of a PodSet.
struct PodSetUpdate {
  std::string name;  ///< of the PodSet
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::map<std::string, std::string> node_selector;
  std::vector<api::Toleration> tolerations;
  friend bool operator==(const PodSetUpdate&, const PodSetUpdate&) = default;
};

struct AdmissionCheck {
  std::string name;
  std::string state;
  std::string message;
  std::vector<PodSetUpdate> updates;
  friend bool operator==(const AdmissionCheck&, const AdmissionCheck&) = default;
};

/// Stands for a job in its queue.
struct Workload {
  KueueVersion version = KueueVersion::V1Beta2;
  ObjectMeta metadata;
  std::string queue;
  std::vector<PodSet> pod_sets;
  PriorityClass priority_class;
  std::optional<int64_t> priority;
  bool active = true;
  /// Annotation: the operator has set active to false, because the job is suspended.
  bool suspended_with_job = false;
  /// Annotation: digest_of() the PodSets that the operator has written; empty: somebody else has.
  std::string pod_sets_digest;
  std::vector<WorkloadCondition> conditions;
  std::optional<Admission> admission;
  std::vector<AdmissionCheck> checks;
  friend bool operator==(const Workload&, const Workload&) = default;
};

/// The same in one version: stores and reflectors want a type for each resource.
template <KueueVersion kVersion>
struct WorkloadIn : Workload {
  WorkloadIn() { version = kVersion; }
  explicit WorkloadIn(Workload workload) : Workload(std::move(workload)) { version = kVersion; }
};
using WorkloadV1Beta2 = WorkloadIn<KueueVersion::V1Beta2>;
using WorkloadV1Beta1 = WorkloadIn<KueueVersion::V1Beta1>;

[[nodiscard]] const WorkloadCondition* find_condition(
    const Workload& workload, std::string_view type
);
[[nodiscard]] bool is_true(const Workload& workload, std::string_view type);

/// Adds or changes a condition. Its transition time changes only with its status.
void set_condition(Workload& workload, WorkloadCondition condition, TimePoint now);

/// The name that Kueue's own integrations give to the Workload of a job. `suffix` tells a second one
/// of the same job apart; empty for the first.
[[nodiscard]] std::string workload_name(
    std::string_view job, std::string_view job_uid, std::string_view suffix = {}
);

/// Of how much `given` must ask, compared with other PodSets. More resources than those of the others never count: a
/// cluster adds defaults.
enum class Asked { Exactly, AtLeast };
/// What `given` asks for instead of `wanted`, in words; empty: the same.
[[nodiscard]] std::string mismatch(
    const std::vector<PodSet>& given, const std::vector<PodSet>& wanted, Asked asked
);

/// Changes whenever what is written of the PodSets does.
[[nodiscard]] std::string digest_of(const std::vector<PodSet>& pod_sets);

[[nodiscard]] Result<Workload> decode_workload(const Json& json, KueueVersion version);
/// For create: metadata and spec, no status.
[[nodiscard]] Json encode(const Workload& workload);

// Merge patches, with the UID and the resourceVersion as preconditions.

/// Spec and the operator's annotations.
[[nodiscard]] Json spec_patch(const Workload& workload);
/// Conditions and, if there is none, the end of the admission.
[[nodiscard]] Json status_patch(const Workload& workload);
/// Owners and labels.
[[nodiscard]] Json owner_patch(const Workload& workload);

template <KueueVersion kOfVersion>
struct WorkloadTraits {
  static constexpr std::string_view kGroup = kueue::kGroup;
  static constexpr std::string_view kKind = "Workload";
  static constexpr std::string_view kPlural = "workloads";
  [[nodiscard]] static Result<WorkloadIn<kOfVersion>> decode(const Json& json) {
    GNN_ASSIGN_OR_RETURN(Workload workload, decode_workload(json, kOfVersion));
    return WorkloadIn<kOfVersion>(std::move(workload));
  }
};

template <>
struct ResourceTraits<WorkloadV1Beta2> : WorkloadTraits<KueueVersion::V1Beta2> {
  static constexpr std::string_view kVersion = "v1beta2";
};
template <>
struct ResourceTraits<WorkloadV1Beta1> : WorkloadTraits<KueueVersion::V1Beta1> {
  static constexpr std::string_view kVersion = "v1beta1";
};

/// A kind of machines: what pods need to get there.
struct ResourceFlavor {
  std::map<std::string, std::string> node_labels;
  std::vector<api::Toleration> tolerations;
  friend bool operator==(const ResourceFlavor&, const ResourceFlavor&) = default;
};
[[nodiscard]] Result<ResourceFlavor> decode_resource_flavor(const Json& json);

/// A PriorityClass or a WorkloadPriorityClass.
struct PriorityOfClass {
  PriorityClass of;
  int64_t value = 0;
  bool is_default = false;  ///< of pods that name no class
};
[[nodiscard]] Result<PriorityOfClass> decode_priority_class(const Json& json, bool of_pods);

}  // namespace gnn::objects
