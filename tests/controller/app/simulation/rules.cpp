#include "tests/controller/app/simulation/rules.h"

#include "common/contract.h"
#include "common/rfc3339.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace gnn::simulation {
namespace {

using std::chrono::seconds;

// Far above what a job needs to which something happens all the time.
constexpr size_t kMostWritesPerMinute = 100;
// A pod that still exists so long after its deletion was due is on a machine that is lost.
constexpr auto kLostAfter = seconds(30);
// As much as clocks that are set differ.
constexpr auto kClocksDiffer = seconds(5);
const char* const kWorkloadFinalizer = "kueue.x-k8s.io/resource-in-use";

std::string name_of(const Json& object) {
  return objects::to_string(key_in(object));
}

int64_t number_at(const Json& object, const char* pointer) {
  const Json::json_pointer path(pointer);
  return object.contains(path) ? object.at(path).get<int64_t>() : 0;
}

bool is_finished_job(const Json& job) {
  return condition_holds(job, "Complete") || condition_holds(job, "Failed");
}

Object job_of_uid(const ApiServer& server, const std::string& uid) {
  for (const auto& [key, job] : server.all(kinds::kJobs)) {
    if (uid_in(*job) == uid) return job;
  }
  return nullptr;
}

// What never changes of the conditions of a job that has finished.
Json ends_of(const Json& job) {
  Json ends = Json::object();
  const Json::json_pointer path("/status/conditions");
  if (!job.contains(path)) return ends;
  for (const Json& each : job.at(path)) {
    const std::string type = each["type"];
    if (type == "Complete" || type == "Failed") {
      ends[type] = {each["status"], each["reason"], each["message"]};
    }
  }
  ends["attempt"] = number_at(job, "/status/attempt");
  return ends;
}

// Of pods, and of Workloads, which are separate for the pod that prepares the data.
bool is_to_prepare(const Json& object) {
  return key_in(object).name.find("-prepare-") != std::string::npos;
}

bool fails_past_deadline(const Json& job) {
  const Json::json_pointer path("/status/conditions");
  if (!job.contains(path)) return false;
  return std::ranges::any_of(job.at(path), [](const Json& each) {
    return each.value("type", "") == "Failed" && each.value("status", "") == "True" &&
           each.value("reason", "") == "DeadlineExceeded";
  });
}

// The numbers in a pod's name, which nobody can change.
std::optional<contract::PodNumbers> numbers_in(const Json& pod) {
  for (const Json& each : pod["metadata"].value("ownerReferences", Json::array())) {
    if (!each.value("controller", false)) continue;
    return contract::numbers_of_pod(each.value("name", ""), key_in(pod).name);
  }
  return std::nullopt;
}

}  // namespace

bool is_over(const Json& pod) {
  const std::string phase = text_at(pod, "/status/phase");
  if (phase == "Succeeded" || phase == "Failed") return true;
  return is_deleted(pod) && number_at(pod, "/metadata/deletionGracePeriodSeconds") == 0;
}

bool holds_quota(const Json& workload) {
  if (condition_holds(workload, "Finished")) return false;
  return condition_holds(workload, "QuotaReserved") ||
         workload.contains(Json::json_pointer("/status/admission"));
}

void Rules::broken(std::string_view rule, std::string what) {
  if (!violation_) violation_ = Violation{.rule = std::string(rule), .what = std::move(what)};
}

void Rules::see_request(const client::HttpRequest& request) {
  if (request.method == "GET") return;
  const std::string what = request.method + " " + request.path;
  if (quiet_) broken(rule::kQuiet, what + " " + request.body.substr(0, 2000));
  const bool may_hold_key = request.method == "POST" && (request.path.ends_with("/configmaps") ||
                                                         request.path.ends_with("/secrets"));
  if (!may_hold_key && request.body.find(kDataKeyMark) != std::string::npos) {
    broken(rule::kNoSecrets, what);
  }
  if (request.method == "DELETE") {
    const Json options = Json::parse(request.body);
    if (text_at(options, "/preconditions/uid").empty()) broken(rule::kPrecondition, what);
  }
  // Objects of one kind that are made have names of their own.
  std::string key = what;
  if (request.method == "POST") {
    key += "/" + text_at(Json::parse(request.body), "/metadata/name");
  }
  std::deque<Duration>& times = writes_[key];
  times.push_back(time_.passed());
  while (times.front() + std::chrono::minutes(1) < time_.passed()) times.pop_front();
  if (times.size() > kMostWritesPerMinute) {
    broken(rule::kNoHotLoop, key + ": " + std::to_string(times.size()) + " times in a minute");
  }
}

void Rules::see_event(const std::string& body) {
  if (body.find(kDataKeyMark) != std::string::npos) broken(rule::kNoSecrets, "an event: " + body);
}

void Rules::see_change(
    const ApiServer& server,
    const std::string& kind,
    const Change& change,
    bool by_controller,
    const std::optional<ViewOfQueue>& view
) {
  if (kind == kinds::kJobs && change.before) see_job(change);
  if (!by_controller) return;
  if (kind == kinds::kJobs && change.before) see_times(change);
  if (change.before) see_foreign(kind, change);
  if (kind == kinds::kWorkloads && change.before) see_workload(server, change);
  if (kind != kinds::kPods) return;
  if (!change.before) return see_new_pod(server, *change.after, view);
  const bool ours = !is_foreign(*change.before);
  if (ours && !is_deleted(*change.before) && is_deleted(*change.after) &&
      !is_over(*change.before)) {
    own_stops_.insert(owner_in(*change.after) + " " + key_in(*change.after).name);
  }
}

void Rules::see_job(const Change& change) {
  const Json& before = *change.before;
  const Json& after = *change.after;
  const std::string name = name_of(after);
  for (const char* number : {"/status/attempt", "/status/restarts"}) {
    if (number_at(after, number) < number_at(before, number)) {
      broken(
          rule::kMonotonic,
          name + ": " + number + " of " + std::to_string(number_at(before, number)) + " became " +
              std::to_string(number_at(after, number))
      );
    }
  }
  if (is_finished_job(before) && (!after.contains("status") || ends_of(before) != ends_of(after))) {
    broken(
        rule::kFinishedStays,
        name + ": " + ends_of(before).dump() + " became " + ends_of(after).dump()
    );
  }
  if (condition_holds(after, "Complete") && condition_holds(after, "Failed")) {
    broken(rule::kFinishedStays, name + " is both Complete and Failed");
  }
  see_failures(before, after);
}

// What ends a job, or takes it away, must be due by the true time.
void Rules::see_times(const Change& change) {
  const Json& before = *change.before;
  const Json& after = *change.after;
  const auto is_due = [&](const char* from, const char* limit) {
    const auto begin = parse_rfc3339(text_at(before, from));
    const Json::json_pointer path(limit);
    if (!begin || !before.contains(path)) return false;
    return time_.now() + kClocksDiffer >= *begin + seconds(before.at(path).get<int64_t>());
  };
  if (is_deleted(after) && !is_deleted(before) &&
      !is_due("/status/completionTime", "/spec/runPolicy/ttlSecondsAfterFinished")) {
    broken(rule::kDue, name_of(after) + " is deleted before its time is over");
  }
  if (!fails_past_deadline(after) || fails_past_deadline(before)) return;
  if (!is_due("/status/startTime", "/spec/runPolicy/activeDeadlineSeconds")) {
    broken(rule::kDue, name_of(after) + " fails before its deadline");
  }
}

void Rules::see_failures(const Json& before, const Json& after) {
  const Json::json_pointer path("/status/failures");
  if (!after.contains(path)) return;
  const Json known = before.contains(path) ? before.at(path) : Json::array();
  for (const Json& each : after.at(path)) {
    if (std::find(known.begin(), known.end(), each) != known.end() || !each.contains("node"))
      continue;
    const std::string pod = contract::pod_name(
        key_in(after).name, each["attempt"].get<int64_t>(), each["node"].get<int64_t>()
    );
    if (own_stops_.contains(uid_in(after) + " " + pod)) {
      broken(rule::kOwnStop, name_of(after) + ": the operator stopped " + pod + ": " + each.dump());
    }
  }
}

void Rules::see_new_pod(
    const ApiServer& server, const Json& pod, const std::optional<ViewOfQueue>& view
) {
  const std::string uid = owner_in(pod);
  own_stops_.erase(uid + " " + key_in(pod).name);  // that was another pod of the name
  if (!view) {
    late_.insert(uid_in(pod));
    return;
  }
  const auto numbers = numbers_in(pod);
  for (const auto& [key, other] : server.all(kinds::kPods)) {
    const bool same = uid_in(*other) == uid_in(pod) || owner_in(*other) != uid || is_over(*other);
    if (same || late_.contains(uid_in(*other)) || is_foreign(*other)) continue;
    const auto others = numbers_in(*other);
    if (!numbers || !others) continue;
    const bool twice = others->node == numbers->node && numbers->restart <= others->restart;
    if (others->attempt != numbers->attempt || twice) {
      broken(rule::kOneAttempt, name_of(pod) + " is made while " + name_of(*other) + " runs");
    }
  }
  // A pass may have read the Workload itself.
  const auto& workloads = server.all(kinds::kWorkloads);
  const bool admitted =
      view->admitted || std::ranges::any_of(workloads, [&](const auto& each) {
        return owner_in(*each.second) == uid && condition_holds(*each.second, "Admitted");
      });
  if (view->queued && !admitted) {
    broken(rule::kAdmitted, name_of(pod) + " is made, and no Workload of its job is admitted");
  }
}

void Rules::see_workload(const ApiServer& server, const Change& change) {
  const bool holds = !change.gone && holds_quota(*change.after);
  if (!holds_quota(*change.before) || holds) return;
  if (owner_in(*change.before).empty()) return;  // left to others with its pods
  for (const auto& [key, pod] : server.all(kinds::kPods)) {
    if (owner_in(*pod) != owner_in(*change.before) || is_over(*pod) || is_foreign(*pod)) continue;
    if (late_.contains(uid_in(*pod)) || is_to_prepare(*pod) != is_to_prepare(*change.before)) {
      continue;
    }
    const auto due = parse_rfc3339(text_at(*pod, "/metadata/deletionTimestamp"));
    if (due && time_.now() + seconds(2) >= *due + kLostAfter) continue;
    broken(
        rule::kQuotaReleased,
        name_of(*change.before) + " gives its quota back while " + name_of(*pod) + " runs"
    );
  }
}

void Rules::see_foreign(const std::string& kind, const Change& change) {
  const Json& before = *change.before;
  if (kind == kinds::kJobs) return;
  const auto meta = before.find("metadata");
  const auto owners = meta->find("ownerReferences");
  const bool owned =
      owners != meta->end() && std::ranges::any_of(*owners, [](const Json& each) {
        return each.value("controller", false) && each.value("kind", "") == contract::kKind;
      });
  const bool held =
      has_finalizer(before, contract::kPodFinalizer) || has_finalizer(before, kWorkloadFinalizer);
  if (owned || held) return;
  broken(rule::kForeign, kind + " " + name_of(before) + " belongs to somebody else");
}

void Rules::check_end(const ApiServer& server) {
  for (const auto& [key, job] : server.all(kinds::kJobs)) check_job(*job);
  for (const auto& [key, pod] : server.all(kinds::kPods)) check_pod(server, *pod);
  for (const auto& [key, each] : server.all(kinds::kWorkloads)) check_workload(server, *each);
  for (const std::string& kind :
       {kinds::kServices,
        kinds::kConfigMaps,
        kinds::kSecrets,
        kinds::kNetworkPolicies,
        kinds::kGroups}) {
    for (const auto& [key, child] : server.all(kind)) {
      const std::string job = label_in(*child, contract::kLabelJob);
      if (job.empty() || server.find(kinds::kJobs, {key.namespace_, job})) continue;
      broken(rule::kNothingLeft, kind + " " + name_of(*child) + " of a job that is gone");
    }
  }
}

void Rules::check_job(const Json& job) {
  const std::string name = name_of(job);
  if (is_deleted(job)) return broken(rule::kNothingLeft, name + " is still being deleted");
  const std::string state = text_at(job, "/status/state");
  const std::string message = text_at(job, "/status/message");
  if (is_finished_job(job)) return;
  const bool waits = job["spec"].value("suspend", false) || state == "Invalid";
  if (!waits) {
    return broken(rule::kEnds, name + " does not end: " + state + ", " + message);
  }
  const bool says = state == "Suspended" ? condition_holds(job, "Suspended") : !message.empty();
  if (state.empty() || !says) {
    broken(rule::kEnds, name + " does not say what it waits for: " + state + ", " + message);
  }
}

void Rules::check_pod(const ApiServer& server, const Json& pod) {
  const Object job = job_of_uid(server, owner_in(pod));
  if (has_finalizer(pod, contract::kPodFinalizer) && (!job || is_finished_job(*job))) {
    broken(rule::kNothingLeft, name_of(pod) + " has our finalizer, and its job is over");
  }
  if (job && !is_over(pod) && (is_finished_job(*job) || (*job)["spec"].value("suspend", false))) {
    broken(rule::kNothingLeft, name_of(pod) + " runs, and its job does not");
  }
  if (!job && !label_in(pod, contract::kLabelJob).empty()) {
    broken(rule::kNothingLeft, name_of(pod) + " is of a job that is gone");
  }
}

void Rules::check_workload(const ApiServer& server, const Json& workload) {
  const std::string uid = owner_in(workload);
  const Object job = job_of_uid(server, uid);
  if (has_finalizer(workload, kWorkloadFinalizer) && (!job || is_finished_job(*job))) {
    broken(
        holds_quota(workload) ? rule::kQuotaHeld : rule::kNothingLeft,
        name_of(workload) + " has a finalizer, and its job is over"
    );
  }
  if (!holds_quota(workload)) return;
  const auto& pods = server.all(kinds::kPods);
  const bool used = std::ranges::any_of(pods, [&](const auto& each) {
    return owner_in(*each.second) == uid && !is_over(*each.second);
  });
  if (!used) broken(rule::kQuotaHeld, name_of(workload) + " holds quota without a pod");
}

}  // namespace gnn::simulation
