#include "controller/reconcile/success_policy.h"

#include "controller/reconcile/conditions.h"
#include "controller/reconcile/servers.h"

#include <chrono>
#include <string>

namespace gnn::reconcile {

bool has_succeeded(const GangView& gang) {
  return gang.all(NodePhase::Succeeded);
}

void complete_job(Pass& pass) {
  api::GnnJobStatus& status = pass.status();
  status.completion_time = std::chrono::floor<std::chrono::seconds>(pass.in.now);
  std::string message = "All " + std::to_string(pass.gang.nodes.size()) + " nodes completed";
  if (status.progress && status.progress->test_metric) {
    message += ", test " + status.progress->metric_name.value_or("metric") + " " +
               *status.progress->test_metric;
  }
  if (is_true(status, condition::kRestarting)) {
    pass.set(condition::kRestarting, false, reason::kRestarted, message);
  }
  pass.set(condition::kScheduled, true, reason::kAllNodesPlaced, "All nodes were scheduled");
  pass.set(condition::kRunning, false, reason::kFinished, message);
  finish_servers(pass, message);
  pass.set(condition::kComplete, true, reason::kAllNodesDone, message);
  // The next pass releases the pods, once the result is saved.
  pass.requeue(Duration::zero());
}

}  // namespace gnn::reconcile
