#include "controller/reconcile/failure_policy.h"

#include "common/api/fields.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/data_key.h"
#include "controller/reconcile/failure_rules.h"
#include "controller/reconcile/finish.h"
#include "controller/reconcile/gang_restart.h"
#include "controller/reconcile/machines.h"
#include "controller/reconcile/node_replacement.h"
#include "controller/reconcile/restart_backoff.h"
#include "controller/reconcile/scheduling.h"
#include "controller/reconcile/servers.h"
#include "controller/reconcile/startup.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::reconcile {
namespace {

constexpr std::string_view kFreeNote = " (does not count against maxRestarts)";

// How much a failure explains; 0 explains most. A disruption explains all that follows from it, a
// lost peer explains nothing.
int severity(FailureKind kind) {
  switch (kind) {
    case FailureKind::Configuration:
    case FailureKind::Data:
      return 0;
    case FailureKind::Disrupted:
    case FailureKind::PodDeleted:
    case FailureKind::NodeLost:
      return 1;
    case FailureKind::OutOfMemory:
    case FailureKind::StorageExceeded:
      return 2;
    case FailureKind::Error:
    case FailureKind::NotStarted:
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

// Where all nodes report a lost peer there is no culprit. The gang itself is charged, so that a
// broken network ends the job instead of restarting it forever.
bool is_charged(const NodeFailure& failure) {
  return !failure.lacks_registry &&
         std::find(kChargedReasons.begin(), kChargedReasons.end(), to_reason(failure.kind)) !=
             kChargedReasons.end();
}

bool explains_more(const NodeView& a, const NodeView& b) {
  const int left = severity(a.failure->kind);
  const int right = severity(b.failure->kind);
  if (left != right) return left < right;
  return a.failure->time.value_or(TimePoint::max()) < b.failure->time.value_or(TimePoint::max());
}

// The failed node that explains most, of equals the first that ended; nothing if none failed.
const NodeView* culprit_of(const GangView& gang) {
  const NodeView* culprit = nullptr;
  for (const NodeView& node : gang.nodes) {
    if (!node.failure) continue;
    if (culprit == nullptr || explains_more(node, *culprit)) culprit = &node;
  }
  return culprit;
}

bool is_consequence(FailureKind kind) {
  return kind == FailureKind::PeerLost || kind == FailureKind::Preempted;
}

// The node that has not failed, but whose state explains most why its peers did; of equals the first.
const NodeView* suspect_of(const GangView& gang) {
  const NodeView* suspect = nullptr;
  for (const NodeView& node : gang.nodes) {
    if (!node.suspicion) continue;
    const bool explains_more =
        suspect == nullptr || severity(node.suspicion->kind) < severity(suspect->suspicion->kind);
    if (explains_more) suspect = &node;
  }
  return suspect;
}

FailureDecision wait_for_more(const Pass& pass, const NodeView& failed) {
  FailureDecision decision;
  decision.verdict = FailureVerdict::AwaitCulprit;
  decision.culprit = &failed;
  decision.awaits_since = pass.awaits_culprit_since();
  decision.await_until = pass.awaits_culprit_until();
  return decision;
}

// "Peer lost" and "preempted" are consequences; the node that caused them may not have ended yet.
std::optional<FailureDecision> await_culprit(const Pass& pass, const NodeView& failed) {
  if (!is_consequence(failed.failure->kind)) return std::nullopt;
  const GangView& gang = pass.gang;
  if (gang.count_done() == static_cast<int64_t>(gang.nodes.size())) return std::nullopt;
  if (earliest_now(pass.in) >= pass.awaits_culprit_until()) return std::nullopt;
  return wait_for_more(pass, failed);
}

// "Attempt 1, node 0, rank 3: what happened".
std::string sentence(const Pass& pass, int64_t node, const NodeFailure& failure) {
  const std::string who = pass.preparing() ? "prepare" : "node " + std::to_string(node);
  std::string text = "Attempt " + std::to_string(pass.attempt) + ", " + who;
  const std::string rank = failure.rank ? "rank " + std::to_string(*failure.rank) : "";
  // Some messages begin with the rank.
  if (!rank.empty() && !failure.message.starts_with(rank + " ")) text += ", " + rank;
  if (!failure.message.empty()) return text + ": " + failure.message;
  const std::string kind(to_reason(failure.kind));
  if (!failure.exit_code) return text + ": " + kind;
  return text + ": exit code " + std::to_string(*failure.exit_code) + " (" + kind + ")";
}

void record_failure(Pass& pass, const FailureDecision& decision) {
  const NodeFailure& failure = decision.failure;
  api::FailureRecord record{
      .attempt = pass.attempt,
      .node = decision.culprit->node,
      .machine = failure.machine.empty() ? std::nullopt : std::optional(failure.machine),
      .rank = failure.rank,
      .exit_code = failure.exit_code,
      .reason = std::string(to_reason(failure.kind)),
      .charged = decision.charged,
      .time = std::chrono::floor<std::chrono::seconds>(pass.in.now),
  };
  pass.status().last_failure = api::LastFailure{
      .attempt = record.attempt,
      .node = record.node,
      .machine = record.machine,
      .rank = record.rank,
      .exit_code = record.exit_code,
      .reason = record.reason,
      .message = failure.message,
      .stderr_tail =
          failure.stderr_tail.empty() ? std::nullopt : std::optional(failure.stderr_tail),
      .time = record.time,
  };
  std::vector<api::FailureRecord>& records = pass.status().failures;
  records.push_back(std::move(record));
  if (records.size() > static_cast<size_t>(api::kMaxFailureRecords)) records.erase(records.begin());
}

struct Treatment {
  bool ends_job = false;
  bool charged = false;  ///< if it does not end the job
  std::string note;      ///< for the message
};

Treatment treat_by_default(const Pass& pass, const NodeFailure& failure) {
  if (is_permanent(failure.kind)) return {.ends_job = true, .note = {}};
  // The same limits and the same work take as much again, on whichever machine, unless it went well for
  // a while in between.
  const bool is_new = has_run_well(pass);
  if (failure.kind == FailureKind::OutOfMemory && !is_new && pass.status().out_of_memory > 0) {
    return {.ends_job = true, .note = " (out of memory for the second time)"};
  }
  if (failure.kind == FailureKind::StorageExceeded && !is_new &&
      pass.status().storage_exceeded > 0) {
    return {.ends_job = true, .note = " (over its storage limit for the second time)"};
  }
  return {.charged = is_charged(failure), .note = {}};
}

Treatment treat(const Pass& pass, const NodeFailure& failure) {
  const std::optional<size_t> found = find_rule(pass.job(), api::FailureRole::Worker, failure);
  if (!found) return treat_by_default(pass, failure);
  const api::FailureRule& rule = pass.job().spec.run_policy.failure_policy.rules[*found];
  return {
      .ends_job = rule.action == api::FailureAction::Fail,
      // What is free for a gang is free for a node, and for a gang that restarts in its place.
      .charged =
          rule.charge && (rule.action != api::FailureAction::RestartNode || is_charged(failure)),
      .note = " (failurePolicy.rules[" + std::to_string(*found) + "])"
  };
}

// What happened to whom; the verdict is left to the caller.
FailureDecision describe_failure(
    const Pass& pass,
    const NodeView& culprit,
    const NodeFailure& failure,
    const Treatment& treatment
) {
  FailureDecision decision;
  decision.culprit = &culprit;
  decision.failure = failure;
  decision.message = sentence(pass, culprit.node, failure) + treatment.note;
  decision.reason = to_reason(failure.kind);
  return decision;
}

// Nothing if the node is not to be replaced alone.
std::optional<FailureDecision> judge_lost_node(
    const Pass& pass, const NodeView& lost, const NodeFailure& failure
) {
  const Treatment treatment = treat(pass, failure);
  const ReplacementDecision replacement = judge_replacement(pass, lost, failure, treatment.charged);
  if (replacement.verdict == ReplacementDecision::Verdict::No) return std::nullopt;
  if (replacement.verdict == ReplacementDecision::Verdict::Wait) {
    return wait_for_more(pass, lost);
  }
  FailureDecision decision = describe_failure(pass, lost, failure, treatment);
  decision.verdict = FailureVerdict::ReplaceNode;
  decision.message += "; its pod is replaced alone";
  decision.charged = treatment.charged;
  if (!decision.charged) decision.message += kFreeNote;
  return decision;
}

// Whether the failure ends the job or restarts the gang.
FailureDecision judge_failure(
    const Pass& pass, const NodeView& culprit, const NodeFailure& failure
) {
  const Treatment treatment = treat(pass, failure);
  FailureDecision decision = describe_failure(pass, culprit, failure, treatment);
  const std::string why = judge_replacement(pass, culprit, failure, treatment.charged).why_not;
  if (!why.empty()) decision.message += "; all nodes restart, because " + why;
  if (treatment.ends_job) {
    decision.verdict = FailureVerdict::FailJob;
    return decision;
  }
  if (!treatment.charged) {
    decision.message += kFreeNote;
    return decision;
  }
  const int64_t allowed = pass.job().spec.run_policy.max_restarts;
  if (pass.status().restarts >= allowed) {
    decision.verdict = FailureVerdict::FailJob;
    decision.reason = reason::kMaxRestartsExceeded;
    decision.message += " (maxRestarts of " + std::to_string(allowed) + " reached)";
    return decision;
  }
  decision.charged = true;
  return decision;
}

}  // namespace

std::optional<FailureDecision> decide_failure(const Pass& pass) {
  const NodeView* culprit = culprit_of(pass.gang);
  const NodeView* suspect = suspect_of(pass.gang);
  if (culprit == nullptr) {
    if (const NodeView* silent = silent_awaited_node(pass)) {
      if (auto lost = judge_lost_node(pass, *silent, *silent->suspicion)) return lost;
    }
    const std::optional<TimePoint> deadline = startup_deadline(pass);
    if (!deadline || earliest_now(pass.in) < *deadline) return std::nullopt;
    return judge_failure(pass, *suspect, *suspect->suspicion);
  }
  const bool lacks_places = unscheduled_nodes(pass.gang) > 0 || parts_without_place(pass) > 0;
  if (culprit->failure->kind == FailureKind::PeerLost && lacks_places) {
    return FailureDecision{.verdict = FailureVerdict::ReleaseGang, .failure = *culprit->failure};
  }
  if (auto lost = judge_lost_node(pass, *culprit, *culprit->failure)) return lost;
  if (auto wait = await_culprit(pass, *culprit)) return wait;
  if (is_consequence(culprit->failure->kind) && suspect != nullptr) {
    return judge_failure(pass, *suspect, *suspect->suspicion);
  }
  return judge_failure(pass, *culprit, *culprit->failure);
}

void apply_failure(Pass& pass, const FailureDecision& decision) {
  if (decision.verdict == FailureVerdict::AwaitCulprit) {
    pass.out.awaits_culprit_since = decision.awaits_since;
    pass.requeue_at(decision.await_until);
    return;
  }
  if (decision.verdict == FailureVerdict::ReleaseGang) {
    return release_gang(pass, "while the others waited for them");
  }
  api::GnnJobStatus& status = pass.status();
  record_failure(pass, decision);
  if (has_run_well(pass)) forget_failures(pass);
  if (decision.failure.kind == FailureKind::OutOfMemory) ++status.out_of_memory;
  if (decision.failure.kind == FailureKind::StorageExceeded) ++status.storage_exceeded;
  if (decision.verdict == FailureVerdict::FailJob) {
    fail_job(pass, decision.reason, decision.message);
    return;
  }
  const bool alone = decision.verdict == FailureVerdict::ReplaceNode;
  if (decision.charged && !alone) ++status.restarts;
  count_machine(pass, decision.failure);
  back_off(pass, decision.charged);
  if (alone) {
    replace_node(pass, decision.culprit->node, decision.charged);
  } else {
    begin_attempt(pass);
    renew_data_key(pass, decision.failure.kind);
  }
  describe_backoff(pass);
  pass.set(condition::kRestarting, true, decision.reason, decision.message);
  pass.set(condition::kRunning, false, reason::kRestarting, decision.message);
  if (pass.preparing()) pass.set(condition::kPrepared, false, decision.reason, decision.message);
}

void count_rounds(Pass& pass) {
  api::GnnJobStatus& status = pass.status();
  int64_t reported = 0;
  const auto hear = [&](const std::optional<api::ProgressReport>& report) {
    const bool fits =
        report && report->job_uid == pass.job().metadata.uid && report->attempt == pass.attempt;
    // What the round costs that waits for a lost node is judged with that node.
    if (fits) reported = std::max(reported, report->round - (report->awaited_node ? 1 : 0));
  };
  hear(pass.in.progress);
  for (const NodeView& node : pass.gang.nodes) hear(node.report);
  // The limit that the pods were given; a worker that reports more is not believed.
  const int64_t allowed =
      pass.job().spec.run_policy.max_restarts - (status.restarts - status.round);
  const int64_t round = std::min(reported, std::max<int64_t>(allowed, 0));
  if (round <= status.round) return;
  status.restarts += round - status.round;
  status.round = round;
}

}  // namespace gnn::reconcile
