#include "controller/reconcile/suspend.h"

#include "controller/reconcile/conditions.h"
#include "controller/reconcile/gang_restart.h"
#include "controller/reconcile/node_replacement.h"
#include "controller/reconcile/pod_group.h"
#include "controller/reconcile/restart_backoff.h"
#include "controller/reconcile/servers.h"

#include <algorithm>
#include <string>

namespace gnn::reconcile {
namespace {

bool has_pods(const GangView& gang) {
  return std::any_of(gang.nodes.begin(), gang.nodes.end(), [](const NodeView& node) {
    return node.pod != nullptr;
  });
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
  return has_pods(pass.gang) || has_old_pods(pass.gang) || !pass.gang.replaced.empty();
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
  stop_gang(pass);
  for (const objects::Pod* pod : pass.gang.prepared) remove_pod(pass, *pod);
  const bool gang_left = gang_stops(pass) || !pass.gang.prepared.empty();
  // The workers may need batches until their checkpoint is written.
  if (!gang_left) {
    suspend_servers(pass, reason::kSuspendedByUser, "The job is suspended and has no servers");
  }
  const bool stopping = gang_left || has_server_pods(pass.servers);
  if (!stopping) remove_all_groups(pass);
  if (stopping && !suspended) {
    pass.set(
        condition::kRunning, false, reason::kStopping, "The job is suspended; its pods are stopping"
    );
    return;
  }
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
  pass.set(condition::kSuspended, false, reason::kResumed, "The job was resumed");
  pass.set(condition::kRunning, false, reason::kNotPlaced, "Creating the pods");
}

}  // namespace gnn::reconcile
