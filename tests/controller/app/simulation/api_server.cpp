#include "tests/controller/app/simulation/api_server.h"

#include "common/rfc3339.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace gnn::simulation {
namespace {

using client::HttpRequest;
using client::HttpResponse;

constexpr int64_t kDefaultGrace = 30;
const char* const kForeground = "foregroundDeletion";
const char* const kOrphan = "orphan";

const Json& metadata_of(const Json& object) {
  static const Json kNone = Json::object();
  const auto found = object.find("metadata");
  return found == object.end() ? kNone : *found;
}

HttpResponse answered(int status, const Json& body) {
  return {.status = status, .headers = {}, .body = body.dump()};
}

bool has_finalizers(const Json& object) {
  const Json& meta = metadata_of(object);
  const auto found = meta.find("finalizers");
  return found != meta.end() && !found->empty();
}

void add_finalizer(Json& object, const char* finalizer) {
  Json& all = object["metadata"]["finalizers"];
  if (!all.is_array()) all = Json::array();
  if (std::find(all.begin(), all.end(), finalizer) == all.end()) all.push_back(finalizer);
}

bool has_ended(const Json& pod) {
  const std::string phase = text_at(pod, "/status/phase");
  return phase == "Succeeded" || phase == "Failed";
}

// Whether nothing holds an object whose deletion was asked for.
bool may_go(const std::string& kind, const Json& object) {
  if (!is_deleted(object) || has_finalizers(object)) return false;
  return kind != kinds::kPods ||
         metadata_of(object).value("deletionGracePeriodSeconds", int64_t{0}) == 0;
}

// As a strategic merge patch, as far as the controller uses it.
void merge_strategically(Json& object, Json patch) {
  const std::string directive = "$deleteFromPrimitiveList/finalizers";
  Json& meta = patch["metadata"];
  if (meta.contains(directive)) {
    Json& all = object["metadata"]["finalizers"];
    if (all.is_array()) {
      for (const Json& each : meta[directive]) {
        all.erase(std::remove(all.begin(), all.end(), each), all.end());
      }
    }
    meta.erase(directive);
  }
  object.merge_patch(patch);
}

std::optional<std::string> precondition_problem(const Json& meta, const Json& present) {
  const std::string uid = meta.value("uid", std::string());
  if (!uid.empty() && uid != uid_in(present)) return "the UID in the precondition is another";
  const std::string version = meta.value("resourceVersion", std::string());
  if (!version.empty() && version != text_at(present, "/metadata/resourceVersion")) {
    return "the object has been modified; please apply your changes to the latest version";
  }
  return std::nullopt;
}

}  // namespace

struct ApiServer::Target {
  std::string kind;
  ObjectKey key;
  std::string subresource;
  std::string query;
};

ObjectKey key_in(const Json& object) {
  const Json& meta = metadata_of(object);
  return {meta.value("namespace", std::string()), meta.value("name", std::string())};
}

std::string text_at(const Json& object, const char* pointer) {
  const Json::json_pointer path(pointer);
  if (!object.contains(path)) return "";
  const Json& found = object.at(path);
  return found.is_string() ? found.get<std::string>() : "";
}

std::string uid_in(const Json& object) {
  return metadata_of(object).value("uid", std::string());
}

bool is_deleted(const Json& object) {
  return metadata_of(object).contains("deletionTimestamp");
}

std::string label_in(const Json& object, std::string_view key) {
  const Json& meta = metadata_of(object);
  const auto labels = meta.find("labels");
  if (labels == meta.end() || !labels->is_object()) return "";
  return labels->value(std::string(key), std::string());
}

std::string owner_in(const Json& object) {
  const Json& meta = metadata_of(object);
  const auto owners = meta.find("ownerReferences");
  if (owners == meta.end()) return "";
  for (const Json& each : *owners) {
    if (each.value("controller", false)) return each.value("uid", std::string());
  }
  return "";
}

bool is_foreign(const Json& object) {
  return !label_in(object, kForeignLabel).empty();
}

bool is_orphan(const Json& object) {
  const Json& meta = metadata_of(object);
  const auto owners = meta.find("ownerReferences");
  return owners == meta.end() || owners->empty();
}

bool has_finalizer(const Json& object, std::string_view finalizer) {
  const Json& meta = metadata_of(object);
  const auto all = meta.find("finalizers");
  return all != meta.end() && std::find(all->begin(), all->end(), finalizer) != all->end();
}

void drop_finalizer(Json& object, std::string_view finalizer) {
  Json& all = object["metadata"]["finalizers"];
  if (all.is_array()) all.erase(std::remove(all.begin(), all.end(), finalizer), all.end());
}

bool condition_holds(const Json& object, std::string_view type) {
  static const Json::json_pointer kPath("/status/conditions");
  if (!object.contains(kPath)) return false;
  return std::ranges::any_of(object.at(kPath), [&](const Json& each) {
    return each.value("type", "") == type && each.value("status", "") == "True";
  });
}

void put_condition(Json& object, Json condition) {
  Json& all = object["status"]["conditions"];
  if (!all.is_array()) all = Json::array();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i]["type"] != condition["type"]) continue;
    all.erase(i);
    break;
  }
  all.push_back(std::move(condition));
}

HttpResponse refused(int status, const std::string& reason, const std::string& message) {
  return answered(
      status,
      {{"kind", "Status"},
       {"apiVersion", "v1"},
       {"status", "Failure"},
       {"reason", reason},
       {"message", message},
       {"code", status}}
  );
}

ApiServer::ApiServer(const SimulatedTime& time, Admit admit, Tell tell)
    : time_(time), admit_(std::move(admit)), tell_(std::move(tell)) {
  for (const std::string& kind :
       {kinds::kPods,
        kinds::kServices,
        kinds::kConfigMaps,
        kinds::kSecrets,
        kinds::kNetworkPolicies,
        kinds::kGroups,
        kinds::kFlavors,
        kinds::kWorkloadPriorities,
        kinds::kPriorities}) {
    kinds_[kind];
  }
  kinds_[kinds::kJobs].has_generation = true;
  kinds_[kinds::kWorkloads].has_generation = true;
}

std::string ApiServer::time_text() const {
  return format_rfc3339(time_.now());
}

std::optional<ApiServer::Target> ApiServer::parse(const std::string& path) {
  Target target;
  const size_t question = path.find('?');
  if (question != std::string::npos) target.query = path.substr(question + 1);
  std::vector<std::string> parts;
  std::string part;
  for (const char c : path.substr(0, question) + "/") {
    if (c != '/') {
      part += c;
    } else if (!part.empty()) {
      parts.push_back(std::exchange(part, {}));
    }
  }
  size_t next = parts.empty() || parts[0] == "api" ? 2 : 3;  // api/v1 or apis/group/version
  const std::string group = next == 3 && parts.size() > 1 ? parts[1] : "";
  if (parts.size() > next + 1 && parts[next] == "namespaces") {
    target.key.namespace_ = parts[next + 1];
    next += 2;
  }
  if (next >= parts.size()) return std::nullopt;
  target.kind = parts[next] + (group.empty() ? "" : "." + group);
  if (next + 1 < parts.size()) target.key.name = parts[next + 1];
  if (next + 2 < parts.size()) target.subresource = parts[next + 2];
  if (!kinds_.contains(target.kind)) return std::nullopt;
  const bool of_kueue = group == "kueue.x-k8s.io";
  if (of_kueue && (!serves(kinds::kWorkloads) || parts[2] != "v1beta2")) return std::nullopt;
  if (!serves(target.kind)) return std::nullopt;
  return target;
}

HttpResponse ApiServer::handle(const HttpRequest& request, const std::string& actor) {
  if (request.path == "/apis") return discovery();
  const auto target = parse(request.path);
  if (!target) {
    return refused(404, "NotFound", "the server could not find the requested resource");
  }
  if (request.method == "POST") return post(*target, request, actor);
  if (target->key.name.empty()) return list(*target);
  const Object found = find(target->kind, target->key);
  if (!found) return refused(404, "NotFound", target->kind + " " + target->key.name + " not found");
  if (request.method == "GET") return answered(200, *found);
  if (request.method == "PUT") return put(*target, request, actor);
  if (request.method == "PATCH") return patch(*target, request, actor);
  return erase(*target, request.body.empty() ? Json::object() : Json::parse(request.body), actor);
}

HttpResponse ApiServer::discovery() const {
  Json items = Json::array();
  const auto add = [&](const char* group, const char* version, const char* resource) {
    Json served = {{"version", version}, {"resources", Json::array()}};
    served["resources"].push_back(Json::object({{"resource", resource}}));
    Json item = {{"metadata", {{"name", group}}}, {"versions", Json::array()}};
    item["versions"].push_back(std::move(served));
    items.push_back(std::move(item));
  };
  if (serves(kinds::kWorkloads)) add("kueue.x-k8s.io", "v1beta2", "workloads");
  if (serves(kinds::kGroups)) add("scheduling.x-k8s.io", "v1alpha1", "podgroups");
  return answered(200, {{"kind", "APIGroupDiscoveryList"}, {"items", items}});
}

HttpResponse ApiServer::list(const Target& target) const {
  const bool unlabelled = target.query.find("labelSelector=%21gnn.dev%2Fjob") != std::string::npos;
  Json items = Json::array();
  for (const auto& [key, object] : all(target.kind)) {
    if (!target.key.namespace_.empty() && key.namespace_ != target.key.namespace_) continue;
    if (unlabelled && !label_in(*object, "gnn.dev/job").empty()) continue;
    items.push_back(*object);
  }
  return answered(
      200,
      {{"kind", "List"},
       {"metadata", {{"resourceVersion", std::to_string(version_)}}},
       {"items", items}}
  );
}

HttpResponse ApiServer::post(
    const Target& target, const HttpRequest& request, const std::string& actor
) {
  Json object = Json::parse(request.body);
  const ObjectKey key = key_in(object);
  if (find(target.kind, key)) {
    return refused(409, "AlreadyExists", target.kind + " \"" + key.name + "\" already exists");
  }
  if (terminating_.contains(key.namespace_)) {
    return refused(403, "Forbidden", key.name + " is forbidden: its namespace is being terminated");
  }
  if (const auto refusal = admit_(target.kind, object)) {
    return refused(refusal->status, refusal->reason, refusal->message);
  }
  create(target.kind, std::move(object), actor);
  return answered(201, *find(target.kind, key));
}

HttpResponse ApiServer::put(
    const Target& target, const HttpRequest& request, const std::string& actor
) {
  const Json object = Json::parse(request.body);
  const Object present = find(target.kind, target.key);
  if (const auto problem = precondition_problem(metadata_of(object), *present)) {
    return refused(409, "Conflict", *problem);
  }
  Json changed = *present;
  if (target.subresource == "status") {
    changed["status"] = object.value("status", Json::object());
  } else {
    changed["spec"] = object.value("spec", Json::object());
  }
  return answered(200, *store(target.kind, present, std::move(changed), actor));
}

HttpResponse ApiServer::patch(
    const Target& target, const HttpRequest& request, const std::string& actor
) {
  const Object present = find(target.kind, target.key);
  Json change = Json::parse(request.body);
  Json changed = *present;
  if (change.is_array()) {
    // A patch that "adds" another UID is refused; the rest is as RFC 6902 says.
    for (const Json& each : change) {
      if (each.value("path", "") == "/metadata/uid" && each["value"] != uid_in(*present)) {
        return each["op"] == "test" ? refused(422, "Invalid", "the test failed")
                                    : refused(409, "Conflict", "another UID");
      }
    }
    try {
      changed = changed.patch(change);
    } catch (const Json::exception& error) {
      return refused(422, "Invalid", error.what());
    }
  } else {
    if (change.contains("metadata")) {
      if (const auto problem = precondition_problem(change["metadata"], *present)) {
        return refused(409, "Conflict", *problem);
      }
      change["metadata"].erase("resourceVersion");
    }
    if (request.content_type == "application/strategic-merge-patch+json") {
      merge_strategically(changed, std::move(change));
    } else {
      changed.merge_patch(change);
    }
  }
  if (target.subresource == "status") {
    Json whole = *present;
    whole["status"] = changed.value("status", Json::object());
    changed = std::move(whole);
  } else if (present->contains("status")) {
    changed["status"] = (*present)["status"];
  }
  return answered(200, *store(target.kind, present, std::move(changed), actor));
}

HttpResponse ApiServer::erase(const Target& target, const Json& options, const std::string& actor) {
  const Object present = find(target.kind, target.key);
  if (options.contains("preconditions")) {
    if (const auto problem = precondition_problem(options["preconditions"], *present)) {
      return refused(409, "Conflict", *problem);
    }
  }
  Json changed = *present;
  const std::string policy = options.value("propagationPolicy", std::string("Background"));
  if (policy == "Foreground") add_finalizer(changed, kForeground);
  if (policy == "Orphan") add_finalizer(changed, kOrphan);
  Json& meta = changed["metadata"];
  int64_t grace = 0;
  if (target.kind == kinds::kPods && !has_ended(changed) &&
      !text_at(changed, "/spec/nodeName").empty()) {
    grace = options.value(
        "gracePeriodSeconds", changed["spec"].value("terminationGracePeriodSeconds", kDefaultGrace)
    );
  }
  // A later request may only shorten what an earlier one has granted.
  const bool again = is_deleted(*present);
  if (again && grace >= meta.value("deletionGracePeriodSeconds", int64_t{0})) {
    return answered(200, *present);
  }
  if (!again || target.kind == kinds::kPods) {
    meta["deletionTimestamp"] = format_rfc3339(time_.now() + std::chrono::seconds(grace));
    meta["deletionGracePeriodSeconds"] = grace;
  }
  return answered(200, *store(target.kind, present, std::move(changed), actor));
}

Object ApiServer::store(
    const std::string& kind, const Object& before, Json after, const std::string& actor
) {
  if (before && *before == after) return before;
  KindState& state = kinds_.at(kind);
  Json& meta = after["metadata"];
  if (before && state.has_generation &&
      before->value("spec", Json()) != after.value("spec", Json())) {
    meta["generation"] = meta.value("generation", int64_t{1}) + 1;
  }
  meta["resourceVersion"] = std::to_string(++version_);
  const ObjectKey key = key_in(after);
  const bool gone = may_go(kind, after);
  const auto stored = std::make_shared<const Json>(std::move(after));
  if (gone) {
    state.objects.erase(key);
  } else {
    state.objects[key] = stored;
  }
  state.history.push_back({.before = before, .after = stored, .version = version_, .gone = gone});
  tell_(kind, Change(state.history.back()), actor);
  return stored;
}

Object ApiServer::find(const std::string& kind, const ObjectKey& key) const {
  const auto& objects = kinds_.at(kind).objects;
  const auto found = objects.find(key);
  return found == objects.end() ? nullptr : found->second;
}

const std::map<ObjectKey, Object>& ApiServer::all(const std::string& kind) const {
  return kinds_.at(kind).objects;
}

std::vector<Object> ApiServer::snapshot(const std::string& kind) const {
  std::vector<Object> objects;
  for (const auto& [key, object] : all(kind)) objects.push_back(object);
  return objects;
}

void ApiServer::create(const std::string& kind, Json object, const std::string& actor) {
  if (find(kind, key_in(object))) return;
  Json& meta = object["metadata"];
  meta["uid"] = "uid-" + std::to_string(++uids_);
  meta["creationTimestamp"] = time_text();
  meta["generation"] = 1;
  if (kind == kinds::kPods) object["status"] = {{"phase", "Pending"}};
  if (kind == kinds::kJobs || kind == kinds::kWorkloads) object.erase("status");
  store(kind, nullptr, std::move(object), actor);
}

void ApiServer::change(const std::string& kind, Json object, const std::string& actor) {
  const Object present = find(kind, key_in(object));
  if (present && uid_in(*present) == uid_in(object)) {
    store(kind, present, std::move(object), actor);
  }
}

void ApiServer::remove(
    const std::string& kind, const ObjectKey& key, const std::string& actor, const Json& options
) {
  if (!find(kind, key)) return;
  static_cast<void>(
      erase({.kind = kind, .key = key, .subresource = {}, .query = {}}, options, actor)
  );
}

const std::vector<Change>& ApiServer::history(const std::string& kind) const {
  return kinds_.at(kind).history;
}

void ApiServer::terminate(const std::string& name_space, bool terminates) {
  if (terminates) {
    terminating_.insert(name_space);
  } else {
    terminating_.erase(name_space);
  }
}

}  // namespace gnn::simulation
