#include "controller/reconcile/plan.h"

#include "common/api/validation.h"
#include "common/contract.h"
#include "controller/reconcile/pass.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace gnn::reconcile {
namespace {

Pass begin_pass(const Observed& observed) {
  const api::GnnJobStatus& status = observed.job.status;
  const std::int64_t attempt = status.attempt == 0 ? 1 : status.attempt;
  // From then on a pod that is not there was taken away; before, it was not created yet.
  const bool created =
      status.attempt > 0 && (is_true(status, condition::kScheduled) ||
                             has_reason(status, condition::kScheduled, reason::kPlacing) ||
                             has_reason(status, condition::kScheduled, reason::kUnschedulable));
  Pass pass{
      .in = observed,
      .attempt = attempt,
      .gang = view_gang(observed, attempt, created && !observed.job.spec.suspend),
      .out = {},
  };
  pass.out.status = status;
  return pass;
}

/// The API server has checked the spec; this is for a CRD that is older than the controller.
bool is_invalid(Pass& pass) {
  const Status valid = api::check(pass.job());
  const api::Workers& workers = pass.job().spec.workers;
  if (valid && workers.pod_template) {
    const bool idle_gpus =
        workers.gpus_per_process > 0 && pass.job().spec.training.device == api::DeviceChoice::CPU;
    pass.set(
        condition::kAccepted,
        true,
        idle_gpus ? reason::kIdleGpus : reason::kValid,
        idle_gpus ? "The specification is valid, but training.device CPU leaves the GPUs that "
                    "workers.gpusPerProcess asks for idle"
                  : "The specification is valid"
    );
    return false;
  }
  pass.set(
      condition::kAccepted,
      false,
      reason::kInvalidSpec,
      valid ? "spec.workers.template: required field is missing" : valid.error().message
  );
  return true;
}

/// No pod of a job that is gone, nor one that was taken from us, is held back by our finalizer.
void release_others(Pass& pass) {
  for (const objects::Pod& pod : pass.in.pods) {
    if (is_owned_by(pod.metadata, pass.job()) || !has_our_finalizer(pod.metadata)) continue;
    pass.out.actions.emplace_back(
        ReleasePod{pod.metadata.name, pod.metadata.uid, pod.metadata.finalizers}
    );
  }
}

/// A pod that does not leave in time makes no event; the clock does.
void watch_leaving_nodes(Pass& pass) {
  for (const NodeView& node : pass.gang.nodes) {
    if (node.phase != NodePhase::Leaving) continue;
    pass.requeue_at(*node.pod->metadata.deletion_timestamp + pass.in.config.lost_after);
  }
}

/// Pods of ours show that the first attempt has begun, even where the status write that would say
/// so was lost with its writer.
void recover_first_attempt(Pass& pass) {
  const bool begun =
      std::any_of(pass.gang.nodes.begin(), pass.gang.nodes.end(), [](const NodeView& node) {
        return node.pod != nullptr;
      });
  if (!begun || pass.status().attempt != 0) return;
  pass.status().attempt = pass.attempt;
  pass.status().start_time = std::chrono::floor<std::chrono::seconds>(pass.in.now);
}

/// The policies, each of which may settle the pass; what is left starts the gang and tells of it.
void settle(Pass& pass) {
  recover_first_attempt(pass);
  count_nodes(pass);
  watch_leaving_nodes(pass);
  merge_progress(pass);
  count_rounds(pass);
  if (is_invalid(pass)) return;
  if (apply_success(pass) || apply_deadline(pass)) return;
  if (apply_suspend(pass)) return;
  if (!pass.status().start_time) {
    pass.status().start_time = std::chrono::floor<std::chrono::seconds>(pass.in.now);
  }
  if (apply_failure(pass) || apply_release(pass)) return;
  if (pass.status().attempt == 0) pass.status().attempt = pass.attempt;
  if (clear_old_pods(pass) || wait_for_turn(pass)) {
    describe_earlier_job(pass);
    describe_gang(pass);
    return;
  }
  create_children(pass);
  describe_gang(pass);
}

}  // namespace

Plan plan(const Observed& observed) {
  Pass pass = begin_pass(observed);
  const auto& manager = observed.job.spec.managed_by;
  if (manager && *manager != contract::kManagedBy) return std::move(pass.out);
  release_others(pass);
  if (apply_deletion(pass)) return std::move(pass.out);
  pass.status().observed_generation = observed.job.metadata.generation;
  if (!apply_finished(pass)) settle(pass);
  for (api::Condition& condition : pass.status().conditions) {
    condition.observed_generation = observed.job.metadata.generation;
  }
  derive_state(pass.status());
  hold_back_minor_news(pass);
  pass.out.events = events_between(observed.job.status, pass.status());
  return std::move(pass.out);
}

std::vector<Action> release_orphans(const std::vector<objects::Pod>& pods) {
  std::vector<Action> actions;
  for (const objects::Pod& pod : pods) {
    if (!has_our_finalizer(pod.metadata)) continue;
    actions.emplace_back(ReleasePod{pod.metadata.name, pod.metadata.uid, pod.metadata.finalizers});
  }
  return actions;
}

std::optional<std::string> progress_address(
    const api::GnnJob& job, const std::vector<objects::Pod>& pods
) {
  if (is_finished(job.status) || job.spec.suspend) return std::nullopt;
  const std::string wanted = contract::pod_name(job.metadata.name, job.status.attempt, 0);
  for (const objects::Pod& pod : pods) {
    const bool runs = pod.metadata.name == wanted && is_owned_by(pod.metadata, job) &&
                      pod.status.phase == "Running" && !pod.status.pod_ip.empty();
    if (runs) return pod.status.pod_ip;
  }
  return std::nullopt;
}

}  // namespace gnn::reconcile
