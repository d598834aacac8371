#include "controller/reconcile/pass.h"

#include <chrono>
#include <string>

namespace gnn::reconcile {

bool apply_success(Pass& pass) {
  if (!pass.gang.all(NodePhase::Succeeded)) return false;
  api::GnnJobStatus& status = pass.status();
  status.completion_time = std::chrono::floor<std::chrono::seconds>(pass.in.now);
  std::string message = "All " + std::to_string(pass.gang.nodes.size()) + " nodes are done";
  if (status.progress && status.progress->test_metric) {
    message += ", test metric " + *status.progress->test_metric;
  }
  if (is_true(status, condition::kRestarting)) {
    pass.set(condition::kRestarting, false, reason::kRestarted, message);
  }
  pass.set(condition::kScheduled, true, reason::kAllNodesPlaced, "All nodes were placed");
  pass.set(condition::kRunning, false, reason::kFinished, message);
  pass.set(condition::kComplete, true, reason::kAllNodesDone, message);
  // Pods are freed by the next pass, which sees that the result is saved.
  pass.requeue(Duration::zero());
  return true;
}

}  // namespace gnn::reconcile
