#include "controller/reconcile/prepare.h"

#include "controller/reconcile/conditions.h"
#include "controller/reconcile/gang_restart.h"
#include "controller/reconcile/restart_backoff.h"

#include <string>

namespace gnn::reconcile {
namespace {

constexpr std::string_view kReady = "The data are prepared";

// "importing: reading edges, 43 %"
std::string progress_text(const Pass& pass) {
  const api::ProgressReport* said = pass.last_report();
  if (said == nullptr || said->doing.empty()) return "The data are being prepared";
  std::string text = "Preparing the data: " + said->doing;
  if (said->percent) text += ", " + std::to_string(*said->percent) + " %";
  return text;
}

}  // namespace

void finish_preparing(Pass& pass) {
  api::GnnJobStatus& status = pass.status();
  const NodeView& pod = pass.gang.nodes.front();
  const bool told = pod.report && !pod.report->message.empty();
  // What has gone wrong tells nothing about the workers.
  forget_failures(pass);
  status.releases = 0;
  status.next_attempt_time.reset();
  const std::string next = "Creating the pods";
  if (is_true(status, condition::kRestarting)) {
    pass.set(condition::kRestarting, false, reason::kRestarted, std::string(kReady));
  }
  pass.set(
      condition::kPrepared,
      true,
      reason::kDataReady,
      told ? pod.report->message : std::string(kReady)
  );
  pass.set(condition::kScheduled, false, reason::kCreating, next);
  pass.set(condition::kRunning, false, reason::kNotPlaced, next);
  pass.requeue(Duration::zero());
}

void recover_preparation(Pass& pass) {
  if (!is_preparing(pass.job()) || pass.preparing()) return;
  pass.set(condition::kPrepared, true, reason::kDataReady, std::string(kReady));
}

void describe_preparing(Pass& pass) {
  const NodeView& pod = pass.gang.nodes.front();
  if (!is_true(pass.status(), condition::kScheduled)) {
    const std::string message =
        message_of(pass.status(), *find_condition(pass.status(), condition::kScheduled));
    pass.set(condition::kPrepared, false, reason::kNotPlaced, message);
    pass.set(condition::kRunning, false, reason::kNotPlaced, message);
    return;
  }
  if (pod.phase != NodePhase::Ready) {
    const std::string message = std::string(kPreparePod) + " is not ready" +
                                (pod.waiting.empty() ? "" : ": " + pod.waiting);
    pass.set(condition::kPrepared, false, reason::kStarting, message);
    pass.set(condition::kRunning, false, reason::kStarting, message);
    return;
  }
  const std::string message = progress_text(pass);
  pass.set(condition::kPrepared, false, reason::kPreparing, message);
  pass.set(condition::kRunning, false, reason::kPreparing, message);
  if (is_true(pass.status(), condition::kRestarting)) {
    pass.set(condition::kRestarting, false, reason::kRestarted, message);
  }
}

void release_prepared(Pass& pass) {
  for (const objects::Pod* pod : pass.gang.prepared) {
    if (!has_ended(*pod)) {
      remove_pod(pass, *pod);
    } else if (has_our_finalizer(pod->metadata)) {
      pass.out.actions.emplace_back(ReleasePod{pod->metadata.name, pod->metadata.uid});
    }
  }
}

}  // namespace gnn::reconcile
