#include "controller/reconcile/startup.h"

#include "controller/reconcile/conditions.h"

#include <algorithm>
#include <chrono>

namespace gnn::reconcile {

std::optional<TimePoint> startup_deadline(const Pass& pass) {
  const api::Condition* scheduled = find_condition(pass.status(), condition::kScheduled);
  if (scheduled == nullptr || scheduled->status != "True") return std::nullopt;
  const bool starts =
      std::any_of(pass.gang.nodes.begin(), pass.gang.nodes.end(), [](const NodeView& node) {
        return node.suspicion && node.suspicion->kind == FailureKind::NotStarted;
      });
  if (!starts) return std::nullopt;
  const int64_t limit = pass.job().spec.run_policy.startup_deadline_seconds;
  return scheduled->last_transition_time + std::chrono::seconds(limit);
}

}  // namespace gnn::reconcile
