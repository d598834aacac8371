#include "tests/controller/app/simulation/cluster.h"

#include "common/contract.h"
#include "common/rfc3339.h"
#include "tests/controller/app/simulation/rules.h"

#include <algorithm>
#include <utility>

namespace gnn::simulation {
namespace {

const std::vector<std::string> kMachines = {"m0", "m1", "m2", "m3"};
const std::vector<std::string> kCollected = {
    kinds::kPods,
    kinds::kServices,
    kinds::kConfigMaps,
    kinds::kSecrets,
    kinds::kNetworkPolicies,
    kinds::kWorkloads,
    kinds::kGroups
};

void set_condition_of_pod(
    Json& pod, const std::string& type, bool holds, const std::string& reason = {}
) {
  Json condition = {{"type", type}, {"status", holds ? "True" : "False"}};
  if (!reason.empty()) condition["reason"] = reason;
  put_condition(pod, std::move(condition));
}

void set_worker(Json& pod, bool ready, Json state) {
  pod["status"]["containerStatuses"] = Json::array(
      {{{"name", contract::kWorkerContainer}, {"ready", ready}, {"state", std::move(state)}}}
  );
}

bool is_placed(const Json& pod) {
  return !text_at(pod, "/spec/nodeName").empty();
}

bool has_owner(const Json& object, const std::string& uid) {
  const auto owners = object["metadata"].find("ownerReferences");
  return owners != object["metadata"].end() && std::ranges::any_of(*owners, [&](const Json& each) {
           return each.value("uid", "") == uid;
         });
}

}  // namespace

std::vector<Object> Cluster::pods() const {
  return server_.snapshot(kinds::kPods);
}

void Cluster::act() {
  const std::vector<Object> all = pods();
  if (dice_.chance(0.01)) return silence(dice_.pick(kMachines));
  if (dice_.chance(0.02)) return wake_all();
  if (all.empty()) return;
  const Object pod = dice_.pick(all);
  dice_.chance(0.8) ? move_on(pod) : disturb(pod);
}

void Cluster::move_on(const Object& pod) {
  if (silent_.contains(text_at(*pod, "/spec/nodeName"))) return;
  if (is_deleted(*pod)) return leave(pod);
  if (is_over(*pod)) return;
  if ((*pod)["spec"].contains("activeDeadlineSeconds") && is_placed(*pod)) {
    return end(pod, 143, "Error", "");
  }
  if (!is_placed(*pod)) return place(pod);
  if (text_at(*pod, "/status/phase") == "Pending") return run(pod);
  if (dice_.chance(0.5)) return;
  const auto code = dice_.pick<int64_t>({0, 0, 0, 0, 1, 64, 65, 70, 75, 76, 77, 137, 143, 255});
  end(pod, code, code == 137 && dice_.chance(0.5) ? "OOMKilled" : "Error", any_message());
}

void Cluster::disturb(const Object& pod) {
  switch (dice_.below(6)) {
    case 0:
      return evict(pod, dice_.chance(0.5));
    case 1:
      return refuse(pod);
    case 2:
      return fail_init(pod);
    case 3: {  // a drain, or somebody's kubectl
      return server_.remove(kinds::kPods, key_in(*pod), "somebody");
    }
    case 4: {  // an image that cannot be pulled
      if (!is_placed(*pod) || text_at(*pod, "/status/phase") != "Pending") return;
      Json changed = *pod;
      set_worker(
          changed, false, {{"waiting", {{"reason", "ImagePullBackOff"}, {"message", "no"}}}}
      );
      return put(std::move(changed));
    }
    default: {
      if (is_placed(*pod)) return;
      Json changed = *pod;
      set_condition_of_pod(changed, "PodScheduled", false, "Unschedulable");
      return put(std::move(changed));
    }
  }
}

// The pods of a group wait until their group is there.
bool Cluster::awaits_group(const Json& pod) const {
  const std::string group = label_in(pod, "scheduling.x-k8s.io/pod-group");
  if (group.empty()) return false;
  return !server_.serves(kinds::kGroups) ||
         !server_.find(kinds::kGroups, {key_in(pod).namespace_, group});
}

void Cluster::place(const Object& pod) {
  if (awaits_group(*pod)) return;
  std::vector<std::string> alive;
  for (const std::string& each : kMachines) {
    if (!silent_.contains(each)) alive.push_back(each);
  }
  if (alive.empty()) return;
  Json placed = *pod;
  placed["spec"]["nodeName"] = dice_.pick(alive);
  set_condition_of_pod(placed, "PodScheduled", true);
  put(std::move(placed));
}

void Cluster::run(const Object& pod) {
  Json running = *pod;
  running["status"]["phase"] = "Running";
  running["status"]["podIP"] = "10.0.0.1";
  set_condition_of_pod(running, "Ready", true);
  set_worker(running, true, {{"running", {{"startedAt", server_.time_text()}}}});
  put(std::move(running));
}

void Cluster::end(
    const Object& pod, int64_t code, const std::string& reason, const std::string& message
) {
  Json ended = *pod;
  ended["status"]["phase"] = code == 0 ? "Succeeded" : "Failed";
  set_condition_of_pod(ended, "Ready", false, "PodCompleted");
  Json state = {
      {"exitCode", code},
      {"reason", code == 0 ? "Completed" : reason},
      {"finishedAt", server_.time_text()}
  };
  if (!message.empty()) state["message"] = message;
  set_worker(ended, false, {{"terminated", std::move(state)}});
  put(std::move(ended));
}

// The kubelet stops the pod's container, and then says that it is done with the pod.
void Cluster::leave(const Object& pod) {
  if (!is_over(*pod)) {
    if (text_at(*pod, "/status/phase") == "Running") {
      const auto code = dice_.pick<int64_t>({76, 76, 0, 137, 143, 70});
      return end(pod, code, "Error", any_message());
    }
  }
  if ((*pod)["metadata"].value("deletionGracePeriodSeconds", int64_t{0}) == 0) return;
  server_.remove(kinds::kPods, key_in(*pod), "kubelet", {{"gracePeriodSeconds", 0}});
}

void Cluster::evict(const Object& pod, bool disrupted) {
  if (is_over(*pod) || !is_placed(*pod)) return;
  Json changed = *pod;
  changed["status"]["phase"] = "Failed";
  changed["status"]["reason"] = "Evicted";
  changed["status"]["message"] = "The node was low on resource: memory";
  if (disrupted) set_condition_of_pod(changed, "DisruptionTarget", true, "TerminationByKubelet");
  put(std::move(changed));
}

void Cluster::refuse(const Object& pod) {
  if (is_over(*pod) || text_at(*pod, "/status/phase") != "Pending") return;
  Json changed = *pod;
  changed["status"]["phase"] = "Failed";
  changed["status"]["reason"] = dice_.pick<std::string>({"OutOfcpu", "NodeAffinity", "Odd"});
  put(std::move(changed));
}

void Cluster::fail_init(const Object& pod) {
  if (is_over(*pod) || !is_placed(*pod) || text_at(*pod, "/status/phase") != "Pending") return;
  Json changed = *pod;
  changed["status"]["phase"] = "Failed";
  changed["status"]["initContainerStatuses"] = Json::array(
      {{{"name", "vault"}, {"state", {{"terminated", {{"exitCode", 42}, {"reason", "Error"}}}}}}}
  );
  set_worker(changed, false, {{"waiting", {{"reason", "PodInitializing"}}}});
  put(std::move(changed));
}

void Cluster::silence(const std::string& machine) {
  silent_.insert(machine);
  for (const Object& pod : pods()) {
    if (text_at(*pod, "/spec/nodeName") != machine || is_over(*pod)) continue;
    Json changed = *pod;
    set_condition_of_pod(changed, "Ready", false);
    put(std::move(changed));
    // As the taint manager does after a while.
    if (dice_.chance(0.7)) server_.remove(kinds::kPods, key_in(*pod), "taints");
  }
}

void Cluster::wake_all() {
  const std::set<std::string> woken = std::exchange(silent_, {});
  for (const Object& pod : pods()) {
    if (!woken.contains(text_at(*pod, "/spec/nodeName")) || is_over(*pod)) continue;
    if (text_at(*pod, "/status/phase") != "Running") continue;
    Json changed = *pod;
    set_condition_of_pod(changed, "Ready", true);
    put(std::move(changed));
  }
}

// What a worker writes is the user's.
std::string Cluster::any_message() {
  return dice_.pick<std::string>(
      {"",
       "",
       "out of luck",
       R"({"contract": 1, "job": "j0", "jobUid": "uid-7", "attempt": 99, "node": 0, "exitCode": 0})",
       R"({"contract": 1, "round": 1e99, "message": null})",
       std::string(4096, '{'),
       "\x1b[31mred\nlines\n"}
  );
}

void Cluster::answer() {
  wake_all();
  for (const Object& pod : pods()) {
    if (is_deleted(*pod)) {
      leave(pod);
    } else if (!is_over(*pod) && !is_placed(*pod)) {
      place(pod);
    } else if (!is_over(*pod) && (*pod)["spec"].contains("activeDeadlineSeconds")) {
      end(pod, 143, "Error", "");
    } else if (text_at(*pod, "/status/phase") == "Pending") {
      run(pod);
    } else if (!is_over(*pod) && label_in(*pod, contract::kLabelServer).empty()) {
      end(pod, 0, "Completed", "");
    }
  }
  collect();
}

void Cluster::collect() {
  std::set<std::string> owners;
  for (const auto& [key, job] : server_.all(kinds::kJobs)) owners.insert(uid_in(*job));
  for (const Object& job : server_.snapshot(kinds::kJobs)) {
    if (is_deleted(*job)) collect_dependents(job);
  }
  for (const std::string& kind : kCollected) {
    for (const Object& object : server_.snapshot(kind)) {
      const auto refs = (*object)["metadata"].find("ownerReferences");
      if (is_deleted(*object) || refs == (*object)["metadata"].end() || refs->empty()) continue;
      const bool lives = std::ranges::any_of(*refs, [&](const Json& each) {
        return owners.contains(each.value("uid", ""));
      });
      if (!lives) server_.remove(kind, key_in(*object), "collector");
    }
  }
  for (const std::string& name_space : std::set<std::string>(server_.terminating())) {
    bool empty = true;
    std::vector<std::string> all = kCollected;
    all.push_back(kinds::kJobs);
    for (const std::string& kind : all) {
      for (const Object& object : server_.snapshot(kind)) {
        if (key_in(*object).namespace_ != name_space) continue;
        empty = false;
        if (!is_deleted(*object)) server_.remove(kind, key_in(*object), "namespaces");
      }
    }
    if (empty) server_.terminate(name_space, false);
  }
}

// Foreground deletion waits for the dependents; orphaning takes their owner away.
void Cluster::collect_dependents(const Object& owner) {
  const std::string uid = uid_in(*owner);
  const bool foreground = has_finalizer(*owner, "foregroundDeletion");
  const bool orphan = has_finalizer(*owner, "orphan");
  if (!foreground && !orphan) return;
  bool waits = false;
  for (const std::string& kind : kCollected) {
    for (const Object& object : server_.snapshot(kind)) {
      if (!has_owner(*object, uid)) continue;
      if (orphan) {
        Json changed = *object;
        changed["metadata"].erase("ownerReferences");
        server_.change(kind, std::move(changed), "collector");
      } else {
        waits = true;
        if (!is_deleted(*object)) server_.remove(kind, key_in(*object), "collector");
      }
    }
  }
  if (waits) return;
  const Object present = server_.find(kinds::kJobs, key_in(*owner));
  if (!present) return;
  Json changed = *present;
  drop_finalizer(changed, "foregroundDeletion");
  drop_finalizer(changed, "orphan");
  server_.change(kinds::kJobs, std::move(changed), "collector");
}

}  // namespace gnn::simulation
