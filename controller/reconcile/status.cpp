#include "controller/reconcile/pass.h"

#include <algorithm>
#include <chrono>
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
  take(into.step, from.step);
  take(into.loss, from.loss);
  take(into.train_metric, from.train_metric);
  take(into.validation_metric, from.validation_metric);
  take(into.test_metric, from.test_metric);
  take(into.rate, from.rate);
  take(into.checkpoint, from.checkpoint);
  into.eta_seconds = from.eta_seconds;  // an old estimate is worse than none
}

bool fits(const Pass& pass, const Report& report) {
  return report.job_uid == pass.job().metadata.uid && report.attempt == pass.attempt;
}

std::string of_all(const Pass& pass, std::int64_t count) {
  return std::to_string(count) + " of " + std::to_string(pass.gang.nodes.size()) + " nodes ";
}

/// " are waiting: <what the first of them says>".
std::string first_waiting(const Pass& pass, NodePhase phase) {
  for (const NodeView& node : pass.gang.nodes) {
    if (node.phase == phase && !node.waiting.empty()) {
      return ": node " + std::to_string(node.node) + ": " + node.waiting;
    }
  }
  return "";
}

void describe_placement(Pass& pass) {
  const std::int64_t open = pass.gang.count(NodePhase::Unscheduled);
  if (!pass.gang.is_complete()) {
    // A refusal or a released gang has said why already.
    if (find_condition(pass.status(), condition::kScheduled) == nullptr) {
      pass.set(condition::kScheduled, false, reason::kCreating, "The pods are being created");
    }
    return;
  }
  const std::string stuck = first_waiting(pass, NodePhase::Unscheduled);
  if (open > 0 && stuck.empty()) {
    // The scheduler has not looked yet: no trouble, and no news with each pod that it places.
    pass.set(condition::kScheduled, false, reason::kPlacing, "All pods exist and are being placed");
    return;
  }
  if (open > 0) {
    pass.set(
        condition::kScheduled,
        false,
        reason::kUnschedulable,
        of_all(pass, open) + "wait for a place" + stuck
    );
    return;
  }
  pass.set(condition::kScheduled, true, reason::kAllNodesPlaced, "All nodes are placed");
  pass.status().releases = 0;
  pass.status().next_attempt_time.reset();
}

void describe_running(Pass& pass) {
  const std::int64_t ready = pass.status().nodes.ready;
  const auto total = static_cast<std::int64_t>(pass.gang.nodes.size());
  if (ready == total) {
    const std::string message = "All nodes are ready";
    pass.set(condition::kRunning, true, reason::kAllNodesReady, message);
    if (is_true(pass.status(), condition::kRestarting)) {
      pass.set(
          condition::kRestarting,
          false,
          reason::kRestarted,
          "Attempt " + std::to_string(pass.attempt) + " runs"
      );
    }
    return;
  }
  // Once it runs it does so until the attempt ends; a probe that fails for a moment is no news.
  if (is_true(pass.status(), condition::kRunning)) return;
  if (!is_true(pass.status(), condition::kScheduled)) {
    const api::Condition* scheduled = find_condition(pass.status(), condition::kScheduled);
    pass.set(condition::kRunning, false, reason::kNotPlaced, scheduled->message);
    return;
  }
  pass.set(
      condition::kRunning,
      false,
      reason::kStarting,
      of_all(pass, ready) + "are ready" + first_waiting(pass, NodePhase::Starting)
  );
}

/// Everything but counts of nodes, progress, and the sentences about them.
bool differs_in_counts_alone(const api::GnnJobStatus& before, api::GnnJobStatus after) {
  if (before.conditions.size() != after.conditions.size()) return false;
  for (std::size_t i = 0; i < before.conditions.size(); ++i) {
    after.conditions[i].message = before.conditions[i].message;
  }
  after.nodes = before.nodes;
  after.progress = before.progress;
  after.message = before.message;
  return after == before;
}

}  // namespace

void Pass::set(std::string_view type, bool holds, std::string_view why, std::string message) {
  set_condition(
      out.status,
      {.type = type, .holds = holds, .reason = why, .message = std::move(message)},
      in.job.metadata.generation,
      in.now
  );
}

void Pass::requeue(Duration wait) {
  out.requeue_after = std::min(out.requeue_after.value_or(Duration::max()), wait);
}

void Pass::requeue_at(TimePoint time) {
  requeue(std::max(time - in.now, Duration::zero()));
}

void count_nodes(Pass& pass) {
  api::NodeCounts& nodes = pass.status().nodes;
  nodes.desired = static_cast<std::int64_t>(pass.gang.nodes.size());
  nodes.succeeded = pass.gang.count(NodePhase::Succeeded);
  nodes.ready = pass.gang.count(NodePhase::Ready) + nodes.succeeded;
  nodes.failed = pass.gang.count(NodePhase::Failed);
  nodes.summary = std::to_string(nodes.ready) + "/" + std::to_string(nodes.desired);
}

void merge_progress(Pass& pass) {
  const auto hear = [&](const Report& report) {
    if (!fits(pass, report) || report.progress == api::JobProgress{}) return;
    if (!pass.status().progress) pass.status().progress.emplace();
    merge(*pass.status().progress, report.progress);
  };
  if (pass.in.progress) hear(*pass.in.progress);
  // Results, node 0's last: it stands above the others.
  for (auto node = pass.gang.nodes.rbegin(); node != pass.gang.nodes.rend(); ++node) {
    if (node->report) hear(*node->report);
  }
}

void describe_earlier_job(Pass& pass) {
  if (pass.gang.previous.empty() || pass.gang.is_complete()) return;
  const objects::Pod& pod = *pass.gang.previous.front();
  const std::string& machine = pod.spec.node_name;
  pass.set(
      condition::kScheduled,
      false,
      reason::kCreating,
      "Waits until pod " + pod.metadata.name + " of an earlier job of this name " +
          (machine.empty() ? "is gone" : "has left " + machine)
  );
}

void describe_gang(Pass& pass) {
  describe_placement(pass);
  describe_running(pass);
}

void hold_back_minor_news(Pass& pass) {
  const api::GnnJobStatus& before = pass.job().status;
  if (pass.status() == before || !pass.in.status_written) return;
  const TimePoint due = *pass.in.status_written + pass.in.config.minor_status_interval;
  if (pass.in.now >= due || !differs_in_counts_alone(before, pass.status())) return;
  pass.out.status = before;
  pass.requeue_at(due);
}

}  // namespace gnn::reconcile
