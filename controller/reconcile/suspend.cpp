#include "controller/reconcile/pass.h"

#include <chrono>
#include <string>

namespace gnn::reconcile {
namespace {

void stop_gang(Pass& pass) {
  for (const NodeView& node : pass.gang.nodes) {
    if (node.pod != nullptr) remove_pod(pass, *node.pod);
  }
}

bool has_pods(const GangView& gang) {
  for (const NodeView& node : gang.nodes) {
    if (node.pod != nullptr) return true;
  }
  return false;
}

}  // namespace

bool apply_suspend(Pass& pass) {
  api::GnnJobStatus& status = pass.status();
  const bool suspended = is_true(status, condition::kSuspended);
  if (!pass.job().spec.suspend) {
    if (!suspended) return false;
    pass.set(condition::kSuspended, false, reason::kResumed, "The job was resumed");
    pass.set(condition::kRunning, false, reason::kNotPlaced, "The pods are being created");
    if (status.attempt == 0) return false;  // it never ran: the first attempt begins as usual
    begin_attempt(pass);
    return true;
  }
  const bool old_left = clear_old_pods(pass);
  const bool stopping = has_pods(pass.gang) || old_left;
  stop_gang(pass);
  if (stopping && !suspended) {
    pass.set(
        condition::kRunning, false, reason::kStopping, "The job is suspended: its pods are leaving"
    );
    return true;
  }
  status.start_time.reset();
  status.next_attempt_time.reset();
  status.releases = 0;
  if (!suspended) {
    const std::string message = "The job is suspended and has no pods";
    pass.set(condition::kSuspended, true, reason::kSuspendedByUser, message);
    pass.set(condition::kRunning, false, reason::kSuspendedByUser, message);
    pass.set(condition::kScheduled, false, reason::kSuspendedByUser, message);
    if (is_true(status, condition::kRestarting)) {
      pass.set(condition::kRestarting, false, reason::kSuspendedByUser, message);
    }
  }
  return true;
}

}  // namespace gnn::reconcile
