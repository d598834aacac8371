#include "controller/objects/pod_group.h"

#include <algorithm>

namespace gnn::objects {
namespace {

Result<GroupCondition> decode_group_condition(const Json& json, const std::string& path) {
  GroupCondition condition;
  ObjectReader reader(json, path);
  reader.read("type", condition.type);
  reader.read("status", condition.status);
  reader.read("reason", condition.reason);
  reader.read("message", condition.message);
  return reader.finish(std::move(condition));
}

Result<int64_t> decode_gang(const Json& json, const std::string& path) {
  int64_t min_count = 0;
  ObjectReader reader(json, path);
  reader.read("minCount", min_count);
  return reader.finish(min_count);
}

Result<int64_t> decode_policy(const Json& json, const std::string& path) {
  int64_t min_count = 0;
  ObjectReader reader(json, path);
  reader.read_with("gang", min_count, decode_gang);
  return reader.finish(min_count);
}

Result<int64_t> decode_group_spec(const Json& json, const std::string& path) {
  int64_t min_count = 0;
  ObjectReader reader(json, path);
  reader.read_with("schedulingPolicy", min_count, decode_policy);
  reader.read("minMember", min_count);
  return reader.finish(min_count);
}

// The part of a group that its scheduler writes.
struct GroupStatus {
  std::string phase;
  std::vector<GroupCondition> conditions;
};

Result<GroupStatus> decode_group_status(const Json& json, const std::string& path) {
  GroupStatus status;
  ObjectReader reader(json, path);
  reader.read("phase", status.phase);
  reader.read_list("conditions", status.conditions, decode_group_condition);
  return reader.finish(std::move(status));
}

Json native_spec(const PodGroupSpec& spec) {
  Json json = Json::object();
  json["schedulingPolicy"] = spec.min_count > 0 ? Json{{"gang", {{"minCount", spec.min_count}}}}
                                                : Json{{"basic", Json::object()}};
  if (!spec.topology_key.empty()) {
    json["schedulingConstraints"]["topology"].push_back(Json{{"key", spec.topology_key}});
  }
  if (!spec.disruption_mode.empty()) {
    json["disruptionMode"][spec.disruption_mode] = Json::object();
  }
  put_unless_empty(json, "priorityClassName", spec.priority_class_name);
  return json;
}

// Without its minimum of resources and time-out, which count for every group of the name.
Json coscheduling_spec(const PodGroupSpec& spec) {
  return Json{{"minMember", std::max<int64_t>(spec.min_count, 1)}};
}

Json volcano_spec(const PodGroupSpec& spec) {
  Json json = {{"minMember", std::max<int64_t>(spec.min_count, 1)}};
  if (!spec.min_resources.empty()) json["minResources"] = spec.min_resources;
  put_unless_empty(json, "queue", spec.queue);
  put_unless_empty(json, "priorityClassName", spec.priority_class_name);
  if (!spec.network_topology_mode.empty()) {
    Json& topology = json["networkTopology"];
    topology["mode"] = spec.network_topology_mode;
    if (spec.network_topology_highest_tier) {
      topology["highestTierAllowed"] = *spec.network_topology_highest_tier;
    }
  }
  return json;
}

Json group_spec_of(const PodGroup& group) {
  switch (group.api) {
    case GroupApi::Native:
      return native_spec(group.spec);
    case GroupApi::Coscheduling:
      return coscheduling_spec(group.spec);
    case GroupApi::Volcano:
      return volcano_spec(group.spec);
  }
  return Json::object();
}

template <class T>
std::string version_in_api() {
  using Traits = ResourceTraits<T>;
  return std::string(Traits::kGroup) + "/" + std::string(Traits::kVersion);
}

}  // namespace

std::string_view to_string(GroupApi api) {
  switch (api) {
    case GroupApi::Native:
      return "Native";
    case GroupApi::Coscheduling:
      return "Coscheduling";
    case GroupApi::Volcano:
      return "Volcano";
  }
  return "";
}

std::optional<GroupApi> group_api_of(std::string_view name) {
  for (const GroupApi api : kGroupApis) {
    if (to_string(api) == name) return api;
  }
  return std::nullopt;
}

std::string api_version_of(GroupApi api) {
  switch (api) {
    case GroupApi::Native:
      return version_in_api<NativePodGroup>();
    case GroupApi::Coscheduling:
      return version_in_api<CoschedulingPodGroup>();
    case GroupApi::Volcano:
      return version_in_api<VolcanoPodGroup>();
  }
  return "";
}

Result<PodGroup> decode_pod_group(const Json& json, GroupApi api) {
  PodGroup group;
  GroupStatus status;
  ObjectReader reader(json, "");
  reader.require("metadata");
  reader.read_with("metadata", group.metadata, decode_meta);
  reader.read_with("spec", group.spec.min_count, decode_group_spec);
  if (api != GroupApi::Coscheduling) reader.read_with("status", status, decode_group_status);
  group.api = api;
  group.phase = std::move(status.phase);
  group.conditions = std::move(status.conditions);
  return reader.finish(std::move(group));
}

Json encode(const PodGroup& group) {
  return Json{
      {"apiVersion", api_version_of(group.api)},
      {"kind", "PodGroup"},
      {"metadata", encode(group.metadata)},
      {"spec", group_spec_of(group)},
  };
}

}  // namespace gnn::objects
