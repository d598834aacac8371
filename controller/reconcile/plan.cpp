#include "controller/reconcile/plan.h"

#include "common/contract.h"
#include "controller/reconcile/children.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/events.h"
#include "controller/reconcile/failure_policy.h"
#include "controller/reconcile/finish.h"
#include "controller/reconcile/gang_restart.h"
#include "controller/reconcile/node_replacement.h"
#include "controller/reconcile/pacing.h"
#include "controller/reconcile/pass.h"
#include "controller/reconcile/pod_group.h"
#include "controller/reconcile/prepare.h"
#include "controller/reconcile/queue.h"
#include "controller/reconcile/relabel.h"
#include "controller/reconcile/scheduling.h"
#include "controller/reconcile/servers.h"
#include "controller/reconcile/spec_errors.h"
#include "controller/reconcile/startup.h"
#include "controller/reconcile/status.h"
#include "controller/reconcile/stored_times.h"
#include "controller/reconcile/success_policy.h"
#include "controller/reconcile/suspend.h"
#include "controller/reconcile/workload.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace gnn::reconcile {
namespace {

Pass begin_pass(const Observed& observed) {
  const api::GnnJobStatus& status = observed.job.status;
  const int64_t attempt = status.attempt == 0 ? 1 : status.attempt;
  // From here on a missing pod was deleted; before, it was not created yet.
  const bool created = status.attempt > 0 &&
                       (is_true(status, condition::kScheduled) ||
                        has_reason(status, condition::kScheduled, reason::kPlacing) ||
                        has_reason(status, condition::kScheduled, reason::kUnschedulable) ||
                        has_reason(status, condition::kScheduled, reason::kQueued) ||
                        has_reason(status, condition::kScheduled, reason::kGangPending)) &&
                       !is_in_queue(status);
  Pass pass{
      .in = observed,
      .attempt = attempt,
      .gang = view_gang(observed, attempt, created && !observed.job.spec.suspend),
      .servers = view_servers(observed),
      .queue = {},
      .out = {},
  };
  pass.queue = view_queue(observed, pass.preparing());
  pass.out.status = status;
  return pass;
}

// What is wrong with the spec, or an empty text. The API server has validated it already; this is
// for a CRD that is older than the controller, and for a cluster without the chart's policies.
std::string spec_problem(const api::GnnJob& job, const OperatorConfig& config) {
  std::string text;
  for (const std::string& error : spec_errors(job, config.allowed_keys)) {
    if (!text.empty()) text += "; ";
    text += error;
  }
  return text.empty() ? volcano_queue_error(job, config.volcano_queues) : text;
}

// "spec.model.type: this version of the controller does not know "GAT"; …", or an empty text.
std::string unknown_words(const api::GnnJob& job) {
  std::string text;
  for (const api::UnknownWord& each : job.unknown_words) {
    text += each.path + ": this version of the controller does not know " + each.word + "; ";
  }
  if (text.empty()) return text;
  return text + "no pod is created before the controller is upgraded";
}

std::string contested(const Pass& pass) {
  std::string text;
  for (const std::string& each : contested_writes(pass.in.writes)) {
    text += (text.empty() ? "" : ", ") + each;
  }
  if (text.empty()) return text;
  return "an admission webhook or another controller keeps undoing what the operator writes: " +
         text;
}

std::string crowded(const Pass& pass) {
  if (!pass.in.waits_for_workers) return "";
  return "jobs of this namespace wait for each other, because calls for them take long and the "
         "namespace has its share of the operator's workers";
}

void check_spec(Pass& pass) {
  // First, because a default in the word's place may break a rule.
  if (const std::string unknown = unknown_words(pass.job()); !unknown.empty()) {
    return pass.set(condition::kAccepted, false, reason::kUnknownValue, unknown);
  }
  if (const std::string problem = spec_problem(pass.job(), pass.in.config); !problem.empty()) {
    return pass.set(condition::kAccepted, false, reason::kInvalidSpec, problem);
  }
  if (const std::string note = queue_note(pass); !note.empty()) {
    return pass.set(
        condition::kAccepted, true, reason::kAwaitsQueue, "The spec is valid, but " + note
    );
  }
  const std::string idle = idle_gpus(pass.job().spec);
  std::string message = "The spec is valid";
  for (const std::string& warning :
       {idle, unreachable_tracker(pass.job().spec, pass.in.config), contested(pass), crowded(pass)})
    if (!warning.empty()) message += ", but " + warning;
  pass.set(condition::kAccepted, true, idle.empty() ? reason::kValid : reason::kIdleGpus, message);
}

// Whether there are pods that the job, as it is cached, cannot have.
bool is_behind(const Pass& pass) {
  return !pass.gang.ahead.empty() || !pass.servers.ahead.empty();
}

// Our finalizer must not hold back pods of a deleted job, or pods that changed their owner.
void release_others(Pass& pass) {
  for (const objects::Pod& pod : pass.in.pods) {
    if (is_owned_by(pod.metadata, pass.job()) || !has_our_finalizer(pod.metadata)) continue;
    pass.out.actions.emplace_back(ReleasePod{pod.metadata.name, pod.metadata.uid});
  }
}

// A pod that outlives its grace period causes no watch event, so the clock has to.
void watch_leaving_nodes(Pass& pass) {
  for (const NodeView& node : pass.gang.nodes) {
    if (node.phase != NodePhase::Leaving) continue;
    pass.requeue_at(*node.pod->metadata.deletion_timestamp + pass.in.config.lost_after);
  }
}

// Events that are to be read cause none of their own.
void watch_starting_nodes(Pass& pass) {
  for (const NodeView& node : pass.gang.nodes) {
    if (node.explain_at) pass.requeue_at(*node.explain_at);
  }
  for (const ServerView& each : pass.servers.servers) {
    if (each.seen.explain_at) pass.requeue_at(*each.seen.explain_at);
  }
}

TimePoint now_in_seconds(const Pass& pass) {
  return std::chrono::floor<std::chrono::seconds>(pass.in.now);
}

// Pods of ours show that the first attempt has begun, even if the status write that says so was
// lost with the controller that made it.
void recover_first_attempt(Pass& pass) {
  const bool begun =
      std::any_of(pass.gang.nodes.begin(), pass.gang.nodes.end(), [](const NodeView& node) {
        return node.pod != nullptr;
      });
  if (!begun || pass.status().attempt != 0) return;
  pass.status().attempt = pass.attempt;
  pass.status().start_time = now_in_seconds(pass);
}

// Starts the gang if nothing is in its way.
void start_gang(Pass& pass) {
  if (pass.status().attempt == 0) pass.status().attempt = pass.attempt;
  if (has_old_pods(pass.gang)) {
    remove_old_pods(pass);
    create_servers(pass);
    return describe_leaving_pods(pass);
  }
  remove_replaced_pods(pass);
  release_prepared(pass);
  const bool accepted = is_true(pass.status(), condition::kAccepted);
  if (const std::string why = why_group_is_unknown(pass); accepted && !why.empty()) {
    pass.set(condition::kScheduled, false, reason::kCreating, "Waiting, because " + why);
    return pass.requeue(pass.in.config.refusal_retry);
  }
  if (accepted) choose_group(pass);
  remove_other_groups(pass);
  if (!accepted) return;
  if (const auto delay = start_delay(pass)) {
    create_servers(pass);
    return apply_start_delay(pass, *delay);
  }
  create_children(pass);
}

// The policies in their order. The first one that has something to do ends the pass; if none has,
// the gang is started, or it runs.
void apply_policies(Pass& pass) {
  cut_stored_times(pass);
  recover_first_attempt(pass);
  recover_preparation(pass);
  count_nodes(pass);
  watch_leaving_nodes(pass);
  watch_starting_nodes(pass);
  merge_progress(pass);
  count_rounds(pass);
  check_spec(pass);
  if (has_succeeded(pass.gang)) {
    return pass.preparing() ? finish_preparing(pass) : complete_job(pass);
  }
  if (pass.job().spec.suspend) return suspend_job(pass);
  const bool stops = is_stopping(pass.job().status);
  if (const auto deadline = stops ? std::nullopt : job_deadline(pass)) {
    if (earliest_now(pass.in) >= *deadline) return fail_past_deadline(pass);
    pass.requeue_at(*deadline);
  }
  if (!is_true(pass.status(), condition::kAccepted) && pass.status().attempt == 0) return;
  if (is_resumed(pass)) {
    resume_job(pass);
    if (pass.status().attempt > 0) return begin_attempt(pass);
  }
  if (must_wait_in_queue(pass)) return wait_in_queue(pass);
  if (stops) return take_back_stop(pass);
  if (!pass.gang.is_complete()) {
    const auto problem = admission_problem(pass);
    if (problem && problem->is_final) {
      return fail_job(pass, reason::kInvalidAdmission, problem->message);
    }
  }
  if (!pass.status().start_time) pass.status().start_time = now_in_seconds(pass);
  if (const auto verdict = judge_servers(pass)) return fail_by_server(pass, *verdict);
  tend_servers(pass);
  if (const auto failure = decide_failure(pass)) {
    apply_failure(pass, *failure);
    if (failure->verdict == FailureVerdict::AwaitCulprit) {
      create_servers(pass);
      describe_gang(pass);
    }
    return;
  }
  if (const auto deadline = scheduling_deadline(pass)) {
    const int64_t timeout = pass.job().spec.run_policy.scheduling_timeout_seconds;
    if (earliest_now(pass.in) >= *deadline) {
      return release_gang(pass, "within " + std::to_string(timeout) + " s");
    }
    pass.requeue_at(*deadline);
  }
  if (const auto deadline = startup_deadline(pass)) pass.requeue_at(*deadline);
  start_gang(pass);
  describe_gang(pass);
}

// The first refusal is told at once, by the next pass.
RefusalDelays refusal_delays(const Observed& observed) {
  constexpr auto kAtOnce = std::chrono::milliseconds(1);
  constexpr auto kPause = std::chrono::seconds(1);
  if (observed.refusals.empty()) return {.changed = kAtOnce, .repeated = kAtOnce};
  return {.changed = kPause, .repeated = observed.config.refusal_retry};
}

// Whether the next pass goes on from what the action writes.
bool is_first_of_two(const Action& action) {
  return std::holds_alternative<UpdateWorkload>(action) ||
         std::holds_alternative<UpdateWorkloadStatus>(action) ||
         std::holds_alternative<AdoptWorkload>(action);
}

// The job of the manager of several clusters, which Kueue copies to one that runs it. Its status is
// Kueue's.
void plan_remote(Pass& pass) {
  const api::GnnJob& job = pass.job();
  if (job.metadata.deletion_timestamp) return release_workloads(pass);
  is_finished(job.status) ? finish_workloads(pass) : tend_workloads(pass);
  pass.out.status = job.status;
}

// Holds back the writes that were made a moment ago and did not last.
void pace_writes(Pass& pass) {
  PacedActions paced = pace(pass.in.writes, std::move(pass.out.actions), pass.in.now);
  pass.out.actions = std::move(paced.now);
  if (paced.next) pass.requeue_at(*paced.next);
  // No watch event follows a write of our own.
  if (std::ranges::any_of(pass.out.actions, is_first_of_two)) pass.requeue(Duration::zero());
  if (paced.held_creates.empty()) return;
  pass.out.requeue_after.reset();
  pass.requeue_at(*paced.next);
  pass.status().data_key_secret = pass.job().status.data_key_secret;
  if (is_finished(pass.status()) || pass.gang.is_complete()) return;
  pass.set(
      condition::kScheduled,
      false,
      reason::kCreateFailed,
      "Created several times and missing again: " + paced.held_creates.front()
  );
}

// The API server has dropped what differs. What the status called for does not follow.
void keep_status(Pass& pass) {
  constexpr auto kPause = std::chrono::seconds(1);
  pass.out.status = pass.job().status;
  auto& after = pass.out.requeue_after;
  if (after) after = std::max<Duration>(*after, kPause);
}

Plan plan_with_admitted_servers(const Observed& observed) {
  Pass pass = begin_pass(observed);
  pass.out.requeue_if_refused = refusal_delays(observed);
  const auto& manager = observed.job.spec.managed_by;
  if (is_run_by_multikueue(observed)) {
    plan_remote(pass);
    pace_writes(pass);
    return std::move(pass.out);
  }
  if (manager && *manager != contract::kManagedBy) return std::move(pass.out);
  release_others(pass);
  release_workloads_of_earlier_jobs(pass);
  if (is_orphaning(observed.job)) {
    release_pods(pass);
    release_workloads(pass);
    pace_writes(pass);
    return std::move(pass.out);
  }
  restore_labels(pass);
  if (observed.job.metadata.deletion_timestamp) {
    remove_pods(pass);
    release_workloads(pass);
    pace_writes(pass);
    return std::move(pass.out);
  }
  if (is_behind(pass)) {
    pass.requeue(observed.config.stale_retry);
    pace_writes(pass);
    return std::move(pass.out);
  }
  remove_impostors(pass);
  pass.status().observed_generation = observed.job.metadata.generation;
  if (is_finished(observed.job.status)) {
    cut_completion_time(pass);
    clean_up_finished(pass);
    finish_workloads(pass);
  } else {
    apply_policies(pass);
    forget_estimate(pass);
    show_queue(pass);
    tend_workloads(pass);
  }
  pace_writes(pass);
  for (api::Condition& condition : pass.status().conditions) {
    condition.observed_generation = observed.job.metadata.generation;
  }
  derive_state(pass.status());
  if (!is_finished(observed.job.status)) {
    derive_kstatus(pass.status(), observed.job.metadata.generation, observed.now);
    say_once(pass.status());
  }
  if (was_cut_before(pass)) {
    keep_status(pass);
  } else if (const auto next = next_status_write(pass)) {
    hold_back_status(pass, *next);
  } else if (is_minor_change(pass)) {
    postpone_status(pass);
  } else {
    pass.out.is_progress = is_progress(pass);
  }
  for (EventRecord& each : events_between(observed.job.status, pass.status())) {
    pass.out.events.push_back(std::move(each));
  }
  return std::move(pass.out);
}

}  // namespace

Plan plan(const Observed& observed) {
  const auto held = with_admitted_servers(observed);
  return plan_with_admitted_servers(held ? *held : observed);
}

QueueNeeds queue_needs(const Observed& observed) {
  if (!observed.config.kueue || !observed.kueue) return {};
  return queue_needs(begin_pass(observed));
}

std::vector<std::string> pods_ahead(const Observed& observed) {
  if (observed.job.metadata.deletion_timestamp) return {};
  const Pass pass = begin_pass(observed);
  std::vector<std::string> uids;
  for (const auto& ahead : {pass.gang.ahead, pass.servers.ahead}) {
    for (const objects::Pod* pod : ahead) uids.push_back(pod->metadata.uid);
  }
  return uids;
}

std::optional<objects::ObjectMeta> pod_to_explain(const Observed& observed) {
  const api::GnnJob& job = observed.job;
  if (is_finished(job.status) || job.metadata.deletion_timestamp || job.spec.suspend) return {};
  const Pass pass = begin_pass(observed);
  for (const NodeView& node : pass.gang.nodes) {
    if (node.explain_at && observed.now >= *node.explain_at) return node.pod->metadata;
  }
  for (const ServerView& each : pass.servers.servers) {
    const NodeView& seen = each.seen;
    if (seen.explain_at && observed.now >= *seen.explain_at) return seen.pod->metadata;
  }
  return std::nullopt;
}

std::vector<std::string> vanished_pods(const Observed& observed) {
  const api::GnnJob& job = observed.job;
  if (is_finished(job.status) || job.metadata.deletion_timestamp) return {};
  const Pass pass = begin_pass(observed);
  if (is_behind(pass)) return {};
  std::vector<std::string> names;
  for (const NodeView& node : pass.gang.nodes) {
    if (node.pod != nullptr || !node.failure) continue;
    names.push_back(newest_pod_of(job, pass.attempt, node.node, pass.preparing()));
  }
  return names;
}

std::vector<std::string> vanished_server_pods(const Observed& observed) {
  const api::GnnJob& job = observed.job;
  if (is_finished(job.status) || job.metadata.deletion_timestamp) return {};
  const auto held = with_admitted_servers(observed);
  const Pass pass = begin_pass(held ? *held : observed);
  if (!keeps_servers(pass) || is_behind(pass)) return {};
  std::vector<std::string> names;
  for (const ServerView& each : pass.servers.servers) {
    if (each.seen.pod != nullptr || !each.made) continue;
    names.push_back(contract::server_pod_name(job.metadata.name, each.seen.node, each.restart));
  }
  return names;
}

std::vector<Action> release_orphans(const std::vector<objects::Pod>& pods) {
  std::vector<Action> actions;
  for (const objects::Pod& pod : pods) {
    if (!has_our_finalizer(pod.metadata)) continue;
    actions.emplace_back(ReleasePod{pod.metadata.name, pod.metadata.uid});
  }
  return actions;
}

std::string progress_pod(const api::GnnJob& job) {
  const std::string& name = job.metadata.name;
  return is_preparing(job) ? contract::prepare_pod_name(name, job.status.attempt)
                           : contract::pod_name(name, job.status.attempt, 0);
}

std::optional<std::string> progress_address(const api::GnnJob& job, const objects::Pod& pod) {
  if (is_finished(job.status) || job.spec.suspend) return std::nullopt;
  const bool runs = pod.metadata.name == progress_pod(job) && is_owned_by(pod.metadata, job) &&
                    pod.status.phase == "Running" && !pod.status.pod_ip.empty();
  return runs ? std::optional(pod.status.pod_ip) : std::nullopt;
}

}  // namespace gnn::reconcile
