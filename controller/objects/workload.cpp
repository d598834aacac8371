#include "controller/objects/workload.h"

#include "common/api/codec.h"
#include "common/contract.h"
#include "common/hash.h"
#include "common/rfc3339.h"
#include "controller/objects/quantity.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace gnn::objects {
namespace {

constexpr std::string_view kSuspendedAnnotation = "gnn.dev/suspended";
constexpr std::string_view kDigestAnnotation = "gnn.dev/pod-sets";
constexpr std::string_view kPodPriorityGroup = "scheduling.k8s.io";
constexpr size_t kMaxNameLength = 253;
constexpr size_t kNameHashLength = 5;
constexpr size_t kMaxConditionBytes = 32 << 10;
// A GNNJob may name 16 requests, 16 limits and GPUs, and a cluster may add some. Bounded, so that no
// Workload is large in a cache.
constexpr size_t kMaxResources = 48;
constexpr size_t kMaxResourceBytes = 317;  // a prefix of 253, a slash, a name of 63

std::string hex_sha1(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), bytes.data(), &size, EVP_sha1(), nullptr);
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += kHex[bytes[i] >> 4U];
    hex += kHex[bytes[i] & 0xfU];
  }
  return hex;
}

//
// What we write

Json encode(const TopologyRequest& request) {
  Json json = Json::object();
  if (request.required) json["required"] = *request.required;
  if (request.preferred) json["preferred"] = *request.preferred;
  if (request.unconstrained) json["unconstrained"] = *request.unconstrained;
  put_unless_empty(json, "podIndexLabel", request.pod_index_label);
  return json;
}

Json encode(const PodSet& pod_set) {
  Json json = {
      {"name", pod_set.name}, {"count", pod_set.count}, {"template", pod_set.pod_template}
  };
  if (pod_set.topology) json["topologyRequest"] = encode(*pod_set.topology);
  return json;
}

Json encode_pod_sets(const std::vector<PodSet>& pod_sets) {
  Json list = Json::array();
  for (const PodSet& each : pod_sets) list.push_back(encode(each));
  return list;
}

// null where there is none, so that a merge patch takes away what was there.
void put_priority_class(Json& spec, const Workload& workload) {
  const PriorityClass& chosen = workload.priority_class;
  if (workload.version == KueueVersion::V1Beta1) {
    spec["priorityClassName"] = chosen.name.empty() ? Json() : Json(chosen.name);
    spec["priorityClassSource"] = chosen.name.empty() ? Json()
                                  : chosen.of_pods    ? Json("scheduling.k8s.io/priorityclass")
                                                   : Json("kueue.x-k8s.io/workloadpriorityclass");
    return;
  }
  spec["priorityClassRef"] =
      chosen.name.empty()
          ? Json()
          : Json{
                {"group", chosen.of_pods ? kPodPriorityGroup : kueue::kGroup},
                {"kind", chosen.of_pods ? "PriorityClass" : "WorkloadPriorityClass"},
                {"name", chosen.name}
            };
}

Json encode_workload_spec(const Workload& workload) {
  Json spec = {{"queueName", workload.queue}, {"active", workload.active}};
  spec["priority"] = workload.priority ? Json(*workload.priority) : Json();
  put_priority_class(spec, workload);
  return spec;
}

Json encode_annotations(const Workload& workload) {
  Json annotations = Json::object();
  annotations[std::string(kSuspendedAnnotation)] =
      workload.suspended_with_job ? Json("true") : Json();
  annotations[std::string(kDigestAnnotation)] =
      workload.pod_sets_digest.empty() ? Json() : Json(workload.pod_sets_digest);
  return annotations;
}

void erase_nulls(Json& object) {
  for (auto member = object.begin(); member != object.end();) {
    member = member->is_null() ? object.erase(member) : std::next(member);
  }
}

Json encode(const WorkloadCondition& condition) {
  Json json = {
      {"type", condition.type},
      {"status", condition.status},
      {"reason", condition.reason},
      {"message", condition.message}
  };
  if (condition.last_transition_time) {
    json["lastTransitionTime"] = format_rfc3339(*condition.last_transition_time);
  }
  if (condition.observed_generation > 0) {
    json["observedGeneration"] = condition.observed_generation;
  }
  return json;
}

Json workload_preconditions(const Workload& workload) {
  return Json{
      {"uid", workload.metadata.uid}, {"resourceVersion", workload.metadata.resource_version}
  };
}

//
// What we read

// Of the metadata, beside what decode_meta() reads.
struct Marks {
  std::map<std::string, std::string> annotations;
  std::vector<std::string> finalizers;
};

Result<Marks> decode_marks(const Json& json, const std::string& path) {
  Marks marks;
  ObjectReader reader(json, path);
  reader.read("annotations", marks.annotations);
  reader.read("finalizers", marks.finalizers);
  return reader.finish(std::move(marks));
}

std::string annotation_of(const Marks& marks, std::string_view key) {
  const auto found = marks.annotations.find(std::string(key));
  return found == marks.annotations.end() ? "" : found->second;
}

Result<api::Toleration> decode_pod_toleration(const Json& json, const std::string& path) {
  api::Toleration toleration;
  ObjectReader reader(json, path);
  reader.read("key", toleration.key);
  reader.read("operator", toleration.op);
  reader.read("value", toleration.value);
  reader.read("effect", toleration.effect);
  reader.read("tolerationSeconds", toleration.toleration_seconds);
  return reader.finish(std::move(toleration));
}

// Whoever writes a Workload may write amounts as numbers.
api::ResourceList amounts_at(const Json& container, const char* path) {
  api::ResourceList amounts;
  const Json::json_pointer pointer(path);
  if (!container.contains(pointer) || !container.at(pointer).is_object()) return amounts;
  for (const auto& [name, amount] : container.at(pointer).items()) {
    if (name.size() > kMaxResourceBytes || amounts.size() >= kMaxResources) continue;
    amounts[name] = amount.is_string() ? amount.get<std::string>() : dump_json(amount);
  }
  return amounts;
}

api::ResourceList requests_of_template(const Json& pod_set) {
  api::ResourceList sum;
  const Json::json_pointer containers("/template/spec/containers");
  if (!pod_set.contains(containers)) return sum;
  for (const Json& each : pod_set.at(containers)) {
    api::ResourceList requests = amounts_at(each, "/resources/requests");
    requests.merge(amounts_at(each, "/resources/limits"));
    if (sum.size() < kMaxResources) add_resources(sum, requests, 1);
  }
  return sum;
}

Result<PodSet> decode_pod_set(const Json& json, const std::string& path) {
  PodSet pod_set;
  ObjectReader reader(json, path);
  reader.read("name", pod_set.name);
  reader.read("count", pod_set.count);
  pod_set.requests = requests_of_template(json);
  return reader.finish(std::move(pod_set));
}

Result<PriorityClass> decode_class_reference(const Json& json, const std::string& path) {
  PriorityClass found;
  std::string group;
  ObjectReader reader(json, path);
  reader.read("group", group);
  reader.read("name", found.name);
  found.of_pods = group == kPodPriorityGroup;
  return reader.finish(std::move(found));
}

Result<Workload> decode_workload_spec(const Json& json, const std::string& path) {
  Workload workload;
  std::string source;
  ObjectReader reader(json, path);
  reader.read("queueName", workload.queue);
  reader.read("active", workload.active);
  reader.read("priority", workload.priority);
  reader.read_list("podSets", workload.pod_sets, decode_pod_set);
  reader.read_with("priorityClassRef", workload.priority_class, decode_class_reference);
  reader.read("priorityClassName", workload.priority_class.name);
  reader.read("priorityClassSource", source);
  if (source.starts_with(kPodPriorityGroup)) workload.priority_class.of_pods = true;
  return reader.finish(std::move(workload));
}

Result<WorkloadCondition> decode_workload_condition(const Json& json, const std::string& path) {
  WorkloadCondition condition;
  ObjectReader reader(json, path);
  reader.read("type", condition.type);
  reader.read("status", condition.status);
  reader.read("reason", condition.reason);
  reader.read("message", condition.message);
  reader.read_with("lastTransitionTime", condition.last_transition_time, decode_time);
  reader.read("observedGeneration", condition.observed_generation);
  return reader.finish(std::move(condition));
}

Result<PodSetAssignment> decode_assignment(const Json& json, const std::string& path) {
  PodSetAssignment assignment;
  std::map<std::string, std::string> flavors;
  ObjectReader reader(json, path);
  reader.read("name", assignment.name);
  reader.read("count", assignment.count);
  reader.read("flavors", flavors);
  for (const auto& [resource, flavor] : flavors) assignment.flavors.push_back(flavor);
  std::ranges::sort(assignment.flavors);
  const auto same = std::ranges::unique(assignment.flavors);
  assignment.flavors.erase(same.begin(), same.end());
  const auto topology = json.find("topologyAssignment");
  assignment.has_topology = topology != json.end() && !topology->is_null();
  return reader.finish(std::move(assignment));
}

Result<std::optional<Admission>> decode_admission(const Json& json, const std::string& path) {
  Admission admission;
  ObjectReader reader(json, path);
  reader.read("clusterQueue", admission.cluster_queue);
  reader.read_list("podSetAssignments", admission.pod_sets, decode_assignment);
  return reader.finish(std::optional(std::move(admission)));
}

Result<PodSetUpdate> decode_update(const Json& json, const std::string& path) {
  PodSetUpdate update;
  ObjectReader reader(json, path);
  reader.read("name", update.name);
  reader.read("labels", update.labels);
  reader.read("annotations", update.annotations);
  reader.read("nodeSelector", update.node_selector);
  reader.read_list("tolerations", update.tolerations, decode_pod_toleration);
  return reader.finish(std::move(update));
}

Result<AdmissionCheck> decode_check(const Json& json, const std::string& path) {
  AdmissionCheck check;
  ObjectReader reader(json, path);
  reader.read("name", check.name);
  reader.read("state", check.state);
  reader.read("message", check.message);
  reader.read_list("podSetUpdates", check.updates, decode_update);
  return reader.finish(std::move(check));
}

struct WorkloadStatus {
  std::vector<WorkloadCondition> conditions;
  std::optional<Admission> admission;
  std::vector<AdmissionCheck> checks;
};

Result<WorkloadStatus> decode_workload_status(const Json& json, const std::string& path) {
  WorkloadStatus status;
  ObjectReader reader(json, path);
  reader.read_list("conditions", status.conditions, decode_workload_condition);
  reader.read_with("admission", status.admission, decode_admission);
  reader.read_list("admissionChecks", status.checks, decode_check);
  return reader.finish(std::move(status));
}

std::string instead_of(std::string what, const std::string& given, const std::string& wanted) {
  return std::move(what.append(given).append(" instead of ").append(wanted));
}

// What the one asks for instead of the other; empty: the same.
std::string resource_mismatch(
    const api::ResourceList& given, const api::ResourceList& wanted, Asked asked
) {
  for (const auto& [name, amount] : wanted) {
    const auto needed = Quantity::parse(amount);
    if (!needed) continue;  // the API server refuses the pods
    const auto found = given.find(name);
    const std::string has = found == given.end() ? "0" : found->second;
    const auto present = Quantity::parse(has);
    const bool fits =
        present && (asked == Asked::Exactly ? *present == *needed : *present >= *needed);
    if (!fits) return instead_of(name, " " + has, amount);
  }
  return "";
}

std::string pod_set_mismatch(const PodSet& given, const PodSet& wanted, Asked asked) {
  if (given.name != wanted.name) return instead_of("", given.name, wanted.name);
  const bool counts =
      asked == Asked::Exactly ? given.count == wanted.count : given.count >= wanted.count;
  const std::string what =
      counts ? resource_mismatch(given.requests, wanted.requests, asked)
             : instead_of("count ", std::to_string(given.count), std::to_string(wanted.count));
  return what.empty() ? "" : given.name + ": " + what;
}

Result<ResourceFlavor> decode_flavor_spec(const Json& json, const std::string& path) {
  ResourceFlavor flavor;
  ObjectReader reader(json, path);
  reader.read("nodeLabels", flavor.node_labels);
  reader.read_list("tolerations", flavor.tolerations, decode_pod_toleration);
  return reader.finish(std::move(flavor));
}

}  // namespace

std::string_view to_string(KueueVersion version) {
  return version == KueueVersion::V1Beta2 ? "v1beta2" : "v1beta1";
}

std::string api_version_of(KueueVersion version) {
  return std::string(kueue::kGroup) + "/" + std::string(to_string(version));
}

const WorkloadCondition* find_condition(const Workload& workload, std::string_view type) {
  const auto found = std::ranges::find(workload.conditions, type, &WorkloadCondition::type);
  return found == workload.conditions.end() ? nullptr : &*found;
}

bool is_true(const Workload& workload, std::string_view type) {
  const WorkloadCondition* found = find_condition(workload, type);
  return found != nullptr && found->status == "True";
}

void set_condition(Workload& workload, WorkloadCondition condition, TimePoint now) {
  condition.message.resize(std::min(condition.message.size(), kMaxConditionBytes));
  condition.observed_generation = workload.metadata.generation;
  const auto found =
      std::ranges::find(workload.conditions, condition.type, &WorkloadCondition::type);
  const bool same = found != workload.conditions.end() && found->status == condition.status;
  condition.last_transition_time =
      same ? found->last_transition_time : std::chrono::floor<std::chrono::seconds>(now);
  if (found == workload.conditions.end()) {
    workload.conditions.push_back(std::move(condition));
  } else {
    *found = std::move(condition);
  }
}

std::string workload_name(std::string_view job, std::string_view job_uid, std::string_view suffix) {
  std::string kind(contract::kKind);
  std::string hashed = kind + "\n" + std::string(contract::kApiGroup) + "\n" + std::string(job) +
                       "\n" + std::string(job_uid);
  if (!suffix.empty()) hashed += "\n" + std::string(suffix);
  std::ranges::transform(kind, kind.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  std::string name = kind + "-" + std::string(job);
  if (!suffix.empty()) name += "-" + std::string(suffix);
  name.resize(std::min(name.size(), kMaxNameLength - 1 - kNameHashLength));
  return name + "-" + hex_sha1(hashed).substr(0, kNameHashLength);
}

std::string mismatch(
    const std::vector<PodSet>& given, const std::vector<PodSet>& wanted, Asked asked
) {
  if (given.size() != wanted.size()) {
    return instead_of("", std::to_string(given.size()), std::to_string(wanted.size()));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    std::string what = pod_set_mismatch(given[i], wanted[i], asked);
    if (!what.empty()) return what;
  }
  return "";
}

std::string digest_of(const std::vector<PodSet>& pod_sets) {
  return std::to_string(fnv1a(dump_json(encode_pod_sets(pod_sets))));
}

Result<Workload> decode_workload(const Json& json, KueueVersion version) {
  Workload workload;
  ObjectMeta metadata;
  Marks marks;
  WorkloadStatus status;
  ObjectReader reader(json, "");
  reader.require("metadata");
  reader.read_with("metadata", metadata, decode_meta);
  reader.read_with("metadata", marks, decode_marks);
  reader.read_with("spec", workload, decode_workload_spec);
  reader.read_with("status", status, decode_workload_status);
  workload.version = version;
  workload.metadata = std::move(metadata);
  workload.metadata.finalizers = std::move(marks.finalizers);
  workload.suspended_with_job = annotation_of(marks, kSuspendedAnnotation) == "true";
  workload.pod_sets_digest = annotation_of(marks, kDigestAnnotation);
  workload.conditions = std::move(status.conditions);
  workload.admission = std::move(status.admission);
  workload.checks = std::move(status.checks);
  return reader.finish(std::move(workload));
}

Json encode(const Workload& workload) {
  Json spec = encode_workload_spec(workload);
  erase_nulls(spec);
  spec["podSets"] = encode_pod_sets(workload.pod_sets);
  Json metadata = encode(workload.metadata);
  Json annotations = encode_annotations(workload);
  erase_nulls(annotations);
  metadata["annotations"] = std::move(annotations);
  return Json{
      {"apiVersion", api_version_of(workload.version)},
      {"kind", "Workload"},
      {"metadata", std::move(metadata)},
      {"spec", std::move(spec)}
  };
}

Json spec_patch(const Workload& workload) {
  Json metadata = workload_preconditions(workload);
  metadata["annotations"] = encode_annotations(workload);
  Json spec = encode_workload_spec(workload);
  // Those that were read have no template.
  const bool written = std::ranges::all_of(workload.pod_sets, [](const PodSet& each) {
    return each.pod_template.is_object();
  });
  if (written) spec["podSets"] = encode_pod_sets(workload.pod_sets);
  return Json{{"metadata", std::move(metadata)}, {"spec", std::move(spec)}};
}

Json status_patch(const Workload& workload) {
  Json status = {{"conditions", Json::array()}};
  for (const WorkloadCondition& each : workload.conditions) {
    status["conditions"].push_back(encode(each));
  }
  if (!workload.admission) status["admission"] = Json();
  return Json{{"metadata", workload_preconditions(workload)}, {"status", std::move(status)}};
}

Json owner_patch(const Workload& workload) {
  Json metadata = workload_preconditions(workload);
  const Json whole = encode(workload.metadata);
  metadata["labels"] = whole["labels"];
  metadata["ownerReferences"] = whole["ownerReferences"];
  return Json{{"metadata", std::move(metadata)}};
}

Result<ResourceFlavor> decode_resource_flavor(const Json& json) {
  ResourceFlavor flavor;
  ObjectReader reader(json, "");
  reader.read_with("spec", flavor, decode_flavor_spec);
  return reader.finish(std::move(flavor));
}

Result<PriorityOfClass> decode_priority_class(const Json& json, bool of_pods) {
  PriorityOfClass found;
  ObjectMeta metadata;
  ObjectReader reader(json, "");
  reader.read_with("metadata", metadata, decode_meta);
  reader.read("value", found.value);
  reader.read("globalDefault", found.is_default);
  found.of = {.of_pods = of_pods, .name = metadata.name};
  return reader.finish(std::move(found));
}

}  // namespace gnn::objects
