#include "tests/controller/app/simulation/queue_manager.h"

#include "tests/controller/app/simulation/rules.h"

#include <utility>

namespace gnn::simulation {
namespace {

const std::string kKueue = "kueue";

}  // namespace

void QueueManager::set_up() {
  server_.create(
      kinds::kFlavors,
      {{"metadata", {{"name", "gold"}}}, {"spec", {{"nodeLabels", {{"pool", "gold"}}}}}},
      kKueue
  );
}

void QueueManager::act() {
  const std::vector<Object> all = server_.snapshot(kinds::kWorkloads);
  if (!server_.serves(kinds::kWorkloads) || all.empty()) return;
  const Object workload = dice_.pick(all);
  follow(workload);
  switch (dice_.below(12)) {
    case 0:
      return evict(workload, "Preempted");
    case 1:
      return evict(workload, "PodsReadyTimeout");
    case 2:
      return set_active(workload, false);
    case 3:
      return set_active(workload, true);
    case 4:
      return server_.remove(kinds::kWorkloads, key_in(*workload), "somebody");
    default:
      return admit(workload);
  }
}

void QueueManager::answer() {
  for (const Object& each : server_.snapshot(kinds::kWorkloads)) {
    const bool suspended = text_at(*each, "/metadata/annotations/gnn.dev~1suspended") == "true";
    if (!suspended && !(*each)["spec"].value("active", true)) set_active(each, true);
  }
  for (const Object& each : server_.snapshot(kinds::kWorkloads)) follow(each);
  for (const Object& each : server_.snapshot(kinds::kWorkloads)) admit(each);
}

void QueueManager::set_condition(
    Json& workload, const std::string& type, bool holds, const std::string& reason
) const {
  put_condition(
      workload,
      {{"type", type},
       {"status", holds ? "True" : "False"},
       {"reason", reason},
       {"message", "says Kueue"},
       {"lastTransitionTime", server_.time_text()}}
  );
}

// What is deactivated is evicted.
void QueueManager::follow(const Object& workload) {
  if (!(*workload)["spec"].value("active", true) && !condition_holds(*workload, "Evicted")) {
    evict(workload, "Deactivated");
  }
}

void QueueManager::admit(const Object& workload) {
  const Object present = server_.find(kinds::kWorkloads, key_in(*workload));
  if (!present || is_deleted(*present) || holds_quota(*present)) return;
  if (condition_holds(*present, "Finished") || !(*present)["spec"].value("active", true)) return;
  Json admitted = *present;
  Json assignments = Json::array();
  for (const Json& each : admitted["spec"]["podSets"]) {
    assignments.push_back(
        {{"name", each["name"]}, {"flavors", {{"cpu", "gold"}}}, {"count", each["count"]}}
    );
  }
  admitted["status"]["admission"] = {
      {"clusterQueue", "all"}, {"podSetAssignments", std::move(assignments)}
  };
  set_condition(admitted, "QuotaReserved", true, "QuotaReserved");
  set_condition(admitted, "Admitted", true, "Admitted");
  if (condition_holds(admitted, "Evicted")) {
    set_condition(admitted, "Evicted", false, "QuotaReserved");
  }
  server_.change(kinds::kWorkloads, std::move(admitted), kKueue);
}

void QueueManager::evict(const Object& workload, const std::string& reason) {
  if (condition_holds(*workload, "Finished")) return;
  const bool idle = !holds_quota(*workload) && reason != "Deactivated";
  if (idle || condition_holds(*workload, "Evicted")) return;
  Json evicted = *workload;
  set_condition(evicted, "Evicted", true, reason);
  server_.change(kinds::kWorkloads, std::move(evicted), kKueue);
}

void QueueManager::set_active(const Object& workload, bool active) {
  const Object present = server_.find(kinds::kWorkloads, key_in(*workload));
  if (!present) return;
  Json changed = *present;
  changed["spec"]["active"] = active;
  server_.change(kinds::kWorkloads, std::move(changed), "somebody");
}

}  // namespace gnn::simulation
