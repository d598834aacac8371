#include "controller/reconcile/status.h"

#include "controller/reconcile/conditions.h"
#include "controller/reconcile/pod_group.h"
#include "controller/reconcile/prepare.h"
#include "controller/reconcile/progress_text.h"
#include "controller/reconcile/servers.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

namespace gnn::reconcile {
namespace {

template <class T>
void take(std::optional<T>& into, const std::optional<T>& from) {
  if (from) into = from;
}

void merge(api::JobProgress& into, const api::JobProgress& from) {
  take(into.epoch, from.epoch);
  take(into.epochs, from.epochs);
  take(into.global_step, from.global_step);
  take(into.loss, from.loss);
  if (from.metric_name && from.metric_name != into.metric_name) {
    // What stands there is of another metric, such as that of the batches before the first evaluation.
    into.train_metric.reset();
    into.validation_metric.reset();
    into.test_metric.reset();
    into.best_epoch.reset();
    into.best_metric.reset();
    into.best_checkpoint.reset();
  }
  take(into.metric_name, from.metric_name);
  take(into.train_metric, from.train_metric);
  take(into.validation_metric, from.validation_metric);
  take(into.test_metric, from.test_metric);
  take(into.test_model, from.test_model);
  take(into.best_epoch, from.best_epoch);
  take(into.best_metric, from.best_metric);
  take(into.best_checkpoint, from.best_checkpoint);
  take(into.rate, from.rate);
  take(into.checkpoint, from.checkpoint);
  // A stale estimate is worse than none.
  into.eta_seconds = from.eta_seconds;
  into.eta = from.eta_seconds ? std::optional(short_time(*from.eta_seconds)) : std::nullopt;
}

bool fits(const Pass& pass, const api::ProgressReport& report) {
  return report.job_uid == pass.job().metadata.uid && report.attempt == pass.attempt;
}

std::string of_all(const Pass& pass, int64_t count) {
  return std::to_string(count) + " of " + std::to_string(pass.gang.nodes.size()) + " nodes ";
}

// ": node 1: what the first node of the phase waits for", or nothing.
std::string first_waiting(const Pass& pass, NodePhase phase) {
  for (const NodeView& node : pass.gang.nodes) {
    if (node.phase != phase || node.waiting.empty()) continue;
    const std::string who = pass.preparing() ? "" : "node " + std::to_string(node.node) + ": ";
    return ": " + who + node.waiting;
  }
  return "";
}

void describe_placement(Pass& pass) {
  const int64_t open = pass.gang.count(NodePhase::Unscheduled);
  if (!pass.gang.is_complete()) {
    // Where a child was refused or the gang released, the condition already says why.
    if (find_condition(pass.status(), condition::kScheduled) == nullptr) {
      pass.set(condition::kScheduled, false, reason::kCreating, "Creating the pods");
    }
    return;
  }
  const std::string of_group = has_group(pass) ? why_group_waits(pass) : "";
  const std::string stuck =
      of_group.empty() ? first_waiting(pass, NodePhase::Unscheduled) : ": " + of_group;
  if (open > 0 && has_group(pass) && is_queued(pass)) {
    pass.set(
        condition::kScheduled,
        false,
        reason::kQueued,
        "Group " + *pass.status().scheduling->group + " waits in its queue" + stuck
    );
    return;
  }
  if (open > 0 && stuck.empty()) {
    // The scheduler is still at work: no problem yet, and no status write for each pod.
    pass.set(condition::kScheduled, false, reason::kPlacing, std::string(kPlacingMessage));
    return;
  }
  if (open > 0) {
    pass.set(
        condition::kScheduled,
        false,
        has_group(pass) ? reason::kGangPending : reason::kUnschedulable,
        (pass.preparing() ? std::string(kPreparePod) + " is" : of_all(pass, open) + "are") +
            " not scheduled" + stuck
    );
    return;
  }
  pass.set(
      condition::kScheduled,
      true,
      reason::kAllNodesPlaced,
      pass.preparing() ? std::string(kPreparePod) + " is scheduled" : "All nodes are scheduled"
  );
  pass.status().releases = 0;
  pass.status().next_attempt_time.reset();
}

void describe_running(Pass& pass) {
  const int64_t ready = pass.status().nodes.ready;
  const auto total = static_cast<int64_t>(pass.gang.nodes.size());
  if (ready == total) {
    const std::string message = "All nodes are ready";
    pass.set(condition::kRunning, true, reason::kAllNodesReady, message);
    if (is_true(pass.status(), condition::kRestarting)) {
      pass.set(
          condition::kRestarting,
          false,
          reason::kRestarted,
          "Attempt " + std::to_string(pass.attempt) + " is running"
      );
    }
    return;
  }
  // Running stays true until the attempt ends; a probe that fails for a moment does not change it.
  if (is_true(pass.status(), condition::kRunning)) return;
  if (!is_true(pass.status(), condition::kScheduled)) {
    const api::Condition* scheduled = find_condition(pass.status(), condition::kScheduled);
    pass.set(condition::kRunning, false, reason::kNotPlaced, message_of(pass.status(), *scheduled));
    return;
  }
  pass.set(
      condition::kRunning,
      false,
      reason::kStarting,
      of_all(pass, ready) + "are ready" + first_waiting(pass, NodePhase::Starting)
  );
}

// Whether only node counts, progress, and the messages about them differ.
bool differs_only_in_counts(const api::GnnJobStatus& before, api::GnnJobStatus after) {
  if (before.conditions.size() != after.conditions.size()) return false;
  for (size_t i = 0; i < before.conditions.size(); ++i) {
    after.conditions[i].message = before.conditions[i].message;
  }
  after.nodes = before.nodes;
  if (differ_only_in_counts(before.servers, after.servers)) after.servers = before.servers;
  after.progress = before.progress;
  after.message = before.message;
  return after == before;
}

// Whether only step, loss, rate and estimate differ: the epoch is the same.
bool differs_only_within_epoch(const api::GnnJobStatus& before, api::GnnJobStatus after) {
  if (!before.progress || !after.progress) return false;
  if (before.progress->epoch == after.progress->epoch) after.message = before.message;
  after.progress->eta = before.progress->eta;
  after.progress->global_step = before.progress->global_step;
  after.progress->loss = before.progress->loss;
  after.progress->rate = before.progress->rate;
  after.progress->eta_seconds = before.progress->eta_seconds;
  return after == before;
}

// Whether this is a first gang of which only that it starts is to be told: no trouble, not running.
bool starts_in_good_order(const api::GnnJobStatus& status) {
  const bool scheduling = is_true(status, condition::kScheduled) ||
                          has_reason(status, condition::kScheduled, reason::kPlacing);
  return status.attempt == 1 && status.restarts == 0 && status.releases == 0 &&
         !status.next_attempt_time && status.conditions.size() == 4 &&
         is_true(status, condition::kReconciling) && is_true(status, condition::kAccepted) &&
         scheduling && find_condition(status, condition::kRunning) != nullptr &&
         !is_true(status, condition::kRunning);
}

// Until when the news of a start can wait, so that a busy API server has time for other jobs' pods:
// the gang often runs by then, and one write tells all. Pods without a status are what a crash
// leaves, too.
std::optional<TimePoint> latest_start_news(const Pass& pass) {
  const api::GnnJobStatus& before = pass.job().status;
  const bool untold = before.attempt == 0 && before.conditions.empty();
  if (!pass.in.busy || !(untold || starts_in_good_order(before)) ||
      !starts_in_good_order(pass.status())) {
    return std::nullopt;
  }
  TimePoint newest{};
  for (const NodeView& node : pass.gang.nodes) {
    const bool exists = node.pod != nullptr && node.pod->metadata.creation_timestamp;
    newest = std::max(newest, exists ? *node.pod->metadata.creation_timestamp : pass.in.now);
  }
  return newest + pass.in.config.start_news_patience;
}

// Until when the change can wait; nothing: it must be written now.
std::optional<TimePoint> latest_write(const Pass& pass) {
  const api::GnnJobStatus& before = pass.job().status;
  if (const auto latest = latest_start_news(pass)) return latest;
  // News of a node does not wait because progress was just written.
  const bool counts =
      pass.status().nodes != before.nodes || pass.status().servers != before.servers;
  const auto& written = counts ? pass.in.counts_written : pass.in.status_written;
  if (pass.status() == before || !written || !differs_only_in_counts(before, pass.status())) {
    return std::nullopt;
  }
  const OperatorConfig& config = pass.in.config;
  return *written + (differs_only_within_epoch(before, pass.status())
                         ? config.progress_status_interval
                         : config.minor_status_interval);
}

}  // namespace

void count_nodes(Pass& pass) {
  api::NodeCounts& nodes = pass.status().nodes;
  if (pass.preparing()) {
    const int64_t desired = pass.job().spec.workers.nodes;
    nodes = {.desired = desired, .summary = "0/" + std::to_string(desired)};
    return;
  }
  nodes.desired = static_cast<int64_t>(pass.gang.nodes.size());
  nodes.succeeded = pass.gang.count(NodePhase::Succeeded);
  nodes.ready = pass.gang.count(NodePhase::Ready) + nodes.succeeded;
  nodes.failed = pass.gang.count(NodePhase::Failed);
  nodes.summary = std::to_string(nodes.ready) + "/" + std::to_string(nodes.desired);
}

void merge_progress(Pass& pass) {
  const auto hear = [&](const api::ProgressReport& report) {
    if (!fits(pass, report) || report.progress == api::JobProgress{}) return;
    if (!pass.status().progress) pass.status().progress.emplace();
    merge(*pass.status().progress, report.progress);
  };
  if (pass.in.progress) hear(*pass.in.progress);
  // Termination messages, node 0's last: it overrides the others.
  for (auto node = pass.gang.nodes.rbegin(); node != pass.gang.nodes.rend(); ++node) {
    if (node->report) hear(*node->report);
  }
}

void describe_leaving_pods(Pass& pass) {
  if (pass.gang.is_complete()) return;
  const bool earlier_job = !pass.gang.previous.empty();
  const auto waited_for = std::ranges::find_if(pass.gang.old, [](const objects::Pod* pod) {
    return !is_kept_by_others(*pod);
  });
  // Why a gang was released says more.
  if (!earlier_job && has_reason(pass.status(), condition::kScheduled, reason::kReleased)) return;
  const objects::Pod& pod = earlier_job ? *pass.gang.previous.front() : **waited_for;
  const std::string& machine = pod.spec.node_name;
  const std::string finalizer = foreign_finalizer(pod.metadata);
  pass.set(
      condition::kScheduled,
      false,
      reason::kCreating,
      "Waiting for pod " + pod.metadata.name + " of an earlier " +
          (earlier_job ? "GNNJob of this name" : "attempt") + " to terminate" +
          (machine.empty() ? "" : " on " + machine) +
          (finalizer.empty() ? "" : "; it has the finalizer " + finalizer)
  );
}

void describe_gang(Pass& pass) {
  describe_placement(pass);
  if (pass.preparing()) return describe_preparing(pass);
  describe_running(pass);
}

void forget_estimate(Pass& pass) {
  auto& progress = pass.status().progress;
  if (!progress || is_true(pass.status(), condition::kRunning)) return;
  progress->eta_seconds.reset();
  progress->eta.reset();
}

bool is_progress(const Pass& pass) {
  const api::GnnJobStatus& before = pass.job().status;
  api::GnnJobStatus after = pass.status();
  if (after == before || before.conditions.size() != after.conditions.size()) return false;
  after.progress = before.progress;
  after.message = before.message;
  const bool prepares = has_reason(before, condition::kPrepared, reason::kPreparing) &&
                        has_reason(after, condition::kPrepared, reason::kPreparing);
  for (size_t i = 0; prepares && i < before.conditions.size(); ++i) {
    after.conditions[i].message = before.conditions[i].message;
  }
  return after == before;
}

bool is_minor_change(const Pass& pass) {
  const auto latest = latest_write(pass);
  return latest && pass.in.now < *latest;
}

bool was_cut_before(const Pass& pass) {
  const std::optional<CutStatus>& last = pass.in.cut_status;
  return last && last->kept == pass.job().status && last->sent == pass.out.status;
}

std::optional<TimePoint> next_status_write(const Pass& pass) {
  const std::optional<CutStatus>& last = pass.in.cut_status;
  if (!last || !pass.in.status_written || pass.status() == pass.job().status) return std::nullopt;
  if (pass.in.now < *pass.in.status_written) return std::nullopt;
  const TimePoint next = *pass.in.status_written + pause_after_cut_statuses(last->in_a_row);
  return pass.in.now < next ? std::optional(next) : std::nullopt;
}

void hold_back_status(Pass& pass, TimePoint next) {
  pass.out.status = pass.job().status;
  pass.out.requeue_after.reset();
  pass.requeue_at(next);
}

void postpone_status(Pass& pass) {
  TimePoint next = *latest_write(pass);
  // Others may have had their turn by then.
  if (pass.in.busy) next = std::min(next, pass.in.now + pass.in.config.minor_status_interval);
  pass.out.status = pass.job().status;
  pass.requeue_at(next);
}

}  // namespace gnn::reconcile
