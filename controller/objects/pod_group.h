#pragma once

#include "common/api/gnn_job.h"
#include "controller/objects/meta.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnn::objects {

/// The APIs of schedulers that place a group of pods together.
enum class GroupApi {
  Native,        ///< of Kubernetes 1.37
  Coscheduling,  ///< of the scheduler plugin of this name
  Volcano,
};
inline constexpr std::array kGroupApis = {
    GroupApi::Native, GroupApi::Coscheduling, GroupApi::Volcano
};

/// The name of a GroupApi, which is also that of the provider in the GNNJob.
[[nodiscard]] std::string_view to_string(GroupApi api);
[[nodiscard]] std::optional<GroupApi> group_api_of(std::string_view name);

/// "scheduling.k8s.io/v1beta1"
[[nodiscard]] std::string api_version_of(GroupApi api);

/// How a pod says which group it is of: by a field, a label or an annotation.
struct GroupMembership {
  GroupApi api = GroupApi::Native;
  std::string group;  ///< name of the object
  friend bool operator==(const GroupMembership&, const GroupMembership&) = default;
};

struct GroupCondition {
  std::string type;
  std::string status;
  std::string reason;
  std::string message;
  friend bool operator==(const GroupCondition&, const GroupCondition&) = default;
};

/// Of a group of pods. encode() writes what its API knows of it; only min_count is read.
struct PodGroupSpec {
  int64_t min_count = 0;  ///< pods that are placed together or not at all; 0: each for itself
  api::ResourceList min_resources = {};  ///< what those ask for in all, in Volcano
  std::string topology_key;              ///< of nodes, in Native; empty: anywhere
  std::string disruption_mode;           ///< in Native: "single" or "all"; empty: its default
  std::string priority_class_name;       ///< in Native and Volcano
  std::string queue;                     ///< in Volcano; empty: its default
  std::string network_topology_mode;     ///< in Volcano: "hard" or "soft"; empty: none
  std::optional<int64_t> network_topology_highest_tier;  ///< in Volcano
  friend bool operator==(const PodGroupSpec&, const PodGroupSpec&) = default;
};

/// A group of pods that a scheduler places together, in whichever API.
struct PodGroup {
  GroupApi api = GroupApi::Native;
  ObjectMeta metadata;
  PodGroupSpec spec;
  std::string phase;  ///< in Volcano
  std::vector<GroupCondition> conditions;
  friend bool operator==(const PodGroup&, const PodGroup&) = default;
};

/// The same in one API: stores and reflectors want a type for each resource.
template <GroupApi kApi>
struct PodGroupIn : PodGroup {
  PodGroupIn() { api = kApi; }
  explicit PodGroupIn(PodGroup group) : PodGroup(std::move(group)) { api = kApi; }
};
using NativePodGroup = PodGroupIn<GroupApi::Native>;
using CoschedulingPodGroup = PodGroupIn<GroupApi::Coscheduling>;
using VolcanoPodGroup = PodGroupIn<GroupApi::Volcano>;

/// Of the status it reads what says why the group waits; nothing of Coscheduling's, which is made by
/// labels across namespaces.
[[nodiscard]] Result<PodGroup> decode_pod_group(const Json& json, GroupApi api);
[[nodiscard]] Json encode(const PodGroup& group);

template <GroupApi kApi>
struct PodGroupTraits {
  static constexpr std::string_view kKind = "PodGroup";
  static constexpr std::string_view kPlural = "podgroups";
  static constexpr bool kPluralIsShared = true;
  [[nodiscard]] static Result<PodGroupIn<kApi>> decode(const Json& json) {
    GNN_ASSIGN_OR_RETURN(PodGroup group, decode_pod_group(json, kApi));
    return PodGroupIn<kApi>(std::move(group));
  }
};

template <>
struct ResourceTraits<NativePodGroup> : PodGroupTraits<GroupApi::Native> {
  static constexpr std::string_view kGroup = "scheduling.k8s.io";
  static constexpr std::string_view kVersion = "v1beta1";
};

template <>
struct ResourceTraits<CoschedulingPodGroup> : PodGroupTraits<GroupApi::Coscheduling> {
  static constexpr std::string_view kGroup = "scheduling.x-k8s.io";
  static constexpr std::string_view kVersion = "v1alpha1";
};

template <>
struct ResourceTraits<VolcanoPodGroup> : PodGroupTraits<GroupApi::Volcano> {
  static constexpr std::string_view kGroup = "scheduling.volcano.sh";
  static constexpr std::string_view kVersion = "v1beta1";
};

}  // namespace gnn::objects
