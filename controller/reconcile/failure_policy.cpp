#include "common/contract.h"
#include "controller/reconcile/pass.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

namespace gnn::reconcile {
namespace {

/// How much a failure explains: of several nodes the one with the lowest number is the culprit, and
/// among equals the one that ended first. A disruption explains everything that follows from it, a
/// lost peer explains nothing.
int rank_of(FailureKind kind) {
  switch (kind) {
    case FailureKind::Configuration:
    case FailureKind::Data:
      return 0;
    case FailureKind::Disrupted:
    case FailureKind::PodDeleted:
    case FailureKind::NodeLost:
      return 1;
    case FailureKind::OutOfMemory:
      return 2;
    case FailureKind::Error:
      return 3;
    case FailureKind::Preempted:
      return 4;
    case FailureKind::PeerLost:
      return 5;
  }
  return 3;
}

bool is_permanent(FailureKind kind) {
  return kind == FailureKind::Configuration || kind == FailureKind::Data;
}

/// A gang whose nodes all say that a peer was lost has no culprit; it is charged itself, so that a
/// broken network ends the job instead of restarting it for ever.
bool is_charged(FailureKind kind) {
  return std::find(kChargedReasons.begin(), kChargedReasons.end(), to_reason(kind)) !=
         kChargedReasons.end();
}

bool explains_more(const NodeView& a, const NodeView& b) {
  const int left = rank_of(a.failure->kind);
  const int right = rank_of(b.failure->kind);
  if (left != right) return left < right;
  return a.failure->time.value_or(TimePoint::max()) < b.failure->time.value_or(TimePoint::max());
}

/// The node that failed first, as far as is known; nothing if none failed.
const NodeView* culprit_of(const GangView& gang) {
  const NodeView* culprit = nullptr;
  for (const NodeView& node : gang.nodes) {
    if (!node.failure) continue;
    if (culprit == nullptr || explains_more(node, *culprit)) culprit = &node;
  }
  return culprit;
}

/// "Peer lost" and "preempted" are what the others say; the node it comes from may not have ended
/// yet. Whether to wait for it, and until when at most: by our own clock, since that of a machine
/// may be wrong.
std::optional<TimePoint> wait_for_culprit(Pass& pass, const NodeView& culprit) {
  if (rank_of(culprit.failure->kind) < rank_of(FailureKind::Preempted)) return std::nullopt;
  const GangView& gang = pass.gang;
  const std::int64_t ended = gang.count(NodePhase::Failed) + gang.count(NodePhase::Succeeded);
  if (ended == static_cast<std::int64_t>(gang.nodes.size())) return std::nullopt;
  const TimePoint seen = pass.in.awaits_culprit_since.value_or(pass.in.now);
  const TimePoint since = std::min(culprit.failure->time.value_or(seen), seen);
  const TimePoint until = since + pass.in.config.culprit_wait;
  if (pass.in.now >= until) return std::nullopt;
  pass.out.awaits_culprit_since = seen;
  return until;
}

std::string sentence(const NodeView& node) {
  const NodeFailure& failure = *node.failure;
  std::string text = "node " + std::to_string(node.node);
  if (failure.rank) text += ", rank " + std::to_string(*failure.rank);
  if (failure.exit_code) text += ", exit code " + std::to_string(*failure.exit_code);
  text += ": " + std::string(to_reason(failure.kind));
  if (!failure.message.empty()) text += ": " + failure.message;
  return text;
}

void record_failure(Pass& pass, const NodeView& node) {
  const NodeFailure& failure = *node.failure;
  pass.status().last_failure = api::LastFailure{
      .attempt = pass.attempt,
      .node = node.node,
      .rank = failure.rank,
      .exit_code = failure.exit_code,
      .reason = std::string(to_reason(failure.kind)),
      .message = failure.message,
      .time = std::chrono::floor<std::chrono::seconds>(failure.time.value_or(pass.in.now)),
  };
}

/// Ends the job if this failure is one too many; says whether it did.
bool end_job(Pass& pass, const NodeView& culprit) {
  const FailureKind kind = culprit.failure->kind;
  const std::string what = "Attempt " + std::to_string(pass.attempt) + ", " + sentence(culprit);
  if (is_permanent(kind)) {
    fail_job(pass, to_reason(kind), what);
    return true;
  }
  api::GnnJobStatus& status = pass.status();
  if (kind == FailureKind::OutOfMemory && ++status.out_of_memory > 1) {
    // The same limits and the same work give the same peak.
    fail_job(pass, reason::kOutOfMemory, what + " (for the second time)");
    return true;
  }
  if (!is_charged(kind)) return false;
  const std::int64_t allowed = pass.job().spec.run_policy.max_restarts;
  if (status.restarts >= allowed) {
    fail_job(
        pass,
        reason::kMaxRestartsExceeded,
        "All " + std::to_string(allowed) + " restarts are used up. " + what
    );
    return true;
  }
  ++status.restarts;
  return false;
}

/// Attempts that cost nothing must not follow each other at full speed.
void delay_next_attempt(Pass& pass, FailureKind kind) {
  pass.status().next_attempt_time.reset();
  if (is_charged(kind)) return;
  std::optional<TimePoint> began;
  for (const NodeView& node : pass.gang.nodes) {
    if (node.pod == nullptr || !node.pod->metadata.creation_timestamp) continue;
    began = std::min(began.value_or(TimePoint::max()), *node.pod->metadata.creation_timestamp);
  }
  if (!began) return;
  const TimePoint next = *began + pass.in.config.min_attempt_interval;
  if (next > pass.in.now) {
    pass.status().next_attempt_time = std::chrono::ceil<std::chrono::seconds>(next);
  }
}

}  // namespace

void count_rounds(Pass& pass) {
  api::GnnJobStatus& status = pass.status();
  std::int64_t reported = 0;
  const auto hear = [&](const std::optional<Report>& report) {
    const bool fits =
        report && report->job_uid == pass.job().metadata.uid && report->attempt == pass.attempt;
    if (fits) reported = std::max(reported, report->round);
  };
  hear(pass.in.progress);
  for (const NodeView& node : pass.gang.nodes) hear(node.report);
  // What the pods were told they may use; a worker that says more is not believed.
  const std::int64_t allowed =
      pass.job().spec.run_policy.max_restarts - (status.restarts - status.round);
  const std::int64_t round = std::min(reported, std::max<std::int64_t>(allowed, 0));
  if (round <= status.round) return;
  status.restarts += round - status.round;
  status.round = round;
}

bool apply_failure(Pass& pass) {
  const NodeView* culprit = culprit_of(pass.gang);
  if (culprit == nullptr) return false;
  if (const auto until = wait_for_culprit(pass, *culprit)) {
    pass.requeue_at(*until);
    describe_gang(pass);
    return true;
  }
  record_failure(pass, *culprit);
  if (end_job(pass, *culprit)) return true;
  const FailureKind kind = culprit->failure->kind;
  delay_next_attempt(pass, kind);
  const std::string what = "Attempt " + std::to_string(pass.attempt) +
                           " ended: " + sentence(*culprit) +
                           (is_charged(kind) ? "" : " (not charged)");
  begin_attempt(pass);
  pass.set(condition::kRestarting, true, to_reason(kind), what);
  pass.set(condition::kRunning, false, reason::kRestarting, what);
  return true;
}

}  // namespace gnn::reconcile
