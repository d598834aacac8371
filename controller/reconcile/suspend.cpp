#include "controller/reconcile/suspend.h"

#include "controller/reconcile/conditions.h"
#include "controller/reconcile/gang_restart.h"
#include "controller/reconcile/node_replacement.h"
#include "controller/reconcile/pod_group.h"
#include "controller/reconcile/restart_backoff.h"
#include "controller/reconcile/servers.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace gnn::reconcile {
namespace {

bool has_pods(const GangView& gang) {
  return std::any_of(gang.nodes.begin(), gang.nodes.end(), [](const NodeView& node) {
    return node.pod != nullptr && !is_kept_by_others(*node.pod);
  });
}

// A suspension ends what a job has to wait, but for what no job gets round.
void keep_restart_floor(Pass& pass) {
  const auto floor = restart_floor(pass);
  if (!floor || *floor <= pass.in.now) return;
  pass.status().next_attempt_time = std::chrono::ceil<std::chrono::seconds>(*floor);
}

}  // namespace

void stop_gang(Pass& pass) {
  remove_old_pods(pass);
  for (const NodeView& node : pass.gang.nodes) {
    if (node.pod != nullptr) remove_pod(pass, *node.pod);
  }
  remove_replaced_pods(pass);
}

bool gang_stops(const Pass& pass) {
  return has_pods(pass.gang) || has_old_pods(pass.gang) ||
         std::ranges::any_of(pass.gang.replaced, [](const objects::Pod* pod) {
           return !is_kept_by_others(*pod);
         });
}

bool is_stopping(const api::GnnJobStatus& status) {
  return has_reason(status, condition::kRunning, reason::kStopping);
}

void forget_attempt(Pass& pass) {
  api::GnnJobStatus& status = pass.status();
  status.scheduling.reset();
  status.start_time.reset();
  status.next_attempt_time.reset();
  status.releases = 0;
  forget_failures(pass);
}

void suspend_job(Pass& pass) {
  const api::GnnJobStatus& status = pass.status();
  const bool suspended = is_true(status, condition::kSuspended);
  const bool has_any_pod =
      gang_stops(pass) || !pass.gang.prepared.empty() || has_server_pods(pass.servers);
  if (has_any_pod && !suspended && !is_stopping(status)) {
    pass.set(
        condition::kRunning, false, reason::kStopping, "The job is suspended; its pods are stopping"
    );
    return pass.requeue(Duration::zero());
  }
  stop_gang(pass);
  for (const objects::Pod* pod : pass.gang.prepared) remove_pod(pass, *pod);
  const bool gang_left = gang_stops(pass) || !pass.gang.prepared.empty();
  // The workers may need batches until their checkpoint is written.
  if (!gang_left) {
    suspend_servers(pass, reason::kSuspendedByUser, "The job is suspended and has no servers");
  }
  const bool stopping = gang_left || has_server_pods(pass.servers);
  if (!stopping) remove_all_groups(pass);
  if (stopping && !suspended) return;
  forget_attempt(pass);
  if (suspended) return;
  const std::string message = "The job is suspended and has no pods";
  pass.set(condition::kSuspended, true, reason::kSuspendedByUser, message);
  pass.set(condition::kRunning, false, reason::kSuspendedByUser, message);
  pass.set(condition::kScheduled, false, reason::kSuspendedByUser, message);
  if (pass.preparing()) {
    pass.set(condition::kPrepared, false, reason::kSuspendedByUser, message);
  }
  if (is_true(status, condition::kRestarting)) {
    pass.set(condition::kRestarting, false, reason::kSuspendedByUser, message);
  }
}

bool is_resumed(const Pass& pass) {
  return !pass.job().spec.suspend && is_true(pass.status(), condition::kSuspended);
}

void resume_job(Pass& pass) {
  keep_restart_floor(pass);
  pass.set(condition::kSuspended, false, reason::kResumed, "The job was resumed");
  pass.set(condition::kRunning, false, reason::kNotPlaced, "Creating the pods");
}

void take_back_stop(Pass& pass) {
  forget_attempt(pass);
  keep_restart_floor(pass);
  begin_attempt(pass);
  const std::string message = "The pods are to stop no more; creating those of the next attempt";
  pass.set(condition::kRunning, false, reason::kNotPlaced, message);
  if (pass.preparing()) pass.set(condition::kPrepared, false, reason::kNotPlaced, message);
}

}  // namespace gnn::reconcile
