#include "controller/reconcile/node_replacement.h"

#include "common/api/fields.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/data_key.h"
#include "controller/reconcile/failure_rules.h"
#include "controller/reconcile/gang_restart.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace gnn::reconcile {
namespace {

using Verdict = ReplacementDecision::Verdict;

// Whether the node has its machine and runs, as far as its pod tells.
bool stands(const NodeView& node) {
  return (node.phase == NodePhase::Ready || node.phase == NodePhase::Starting) && !node.suspicion;
}

// The round that the attempt reaches with one replacement more: the one for which node 0 says that it
// waits, if it counts them.
int64_t next_round(const Pass& pass) {
  const api::GnnJobStatus& status = pass.status();
  const api::ProgressReport* said = pass.last_report();
  const int64_t awaited = said != nullptr && said->awaited_node ? said->round : 0;
  return std::max({
      status.round,
      static_cast<int64_t>(status.replaced_nodes.size()) + 1,
      std::min(awaited, status.round + 1),
  });
}

bool restart_is_left(const Pass& pass) {
  const api::GnnJobStatus& status = pass.status();
  const int64_t allowed = pass.job().spec.run_policy.max_restarts;
  return status.restarts + next_round(pass) - status.round <= allowed;
}

bool asks_for_replacement(const Pass& pass, const NodeFailure& failure) {
  const auto& rules = pass.job().spec.run_policy.failure_policy.rules;
  const std::optional<size_t> rule = find_rule(pass.job(), api::FailureRole::Worker, failure);
  return rule && rules[*rule].action == api::FailureAction::RestartNode;
}

// Whether a new pod would have another data key than those of the attempt.
bool key_was_lost(const Pass& pass) {
  return std::ranges::any_of(pass.gang.nodes, [&](const NodeView& node) {
    return node.pod != nullptr && has_other_key(pass, *node.pod);
  });
}

}  // namespace

bool may_replace_nodes(const api::GnnJob& job) {
  const auto& rules = job.spec.run_policy.failure_policy.rules;
  return job.spec.workers.nodes > 1 &&
         std::any_of(rules.begin(), rules.end(), [](const api::FailureRule& rule) {
           return rule.action == api::FailureAction::RestartNode;
         });
}

int64_t restart_of(const api::GnnJobStatus& status, int64_t node) {
  return std::count(status.replaced_nodes.begin(), status.replaced_nodes.end(), node);
}

ReplacementDecision judge_replacement(
    const Pass& pass, const NodeView& lost, const NodeFailure& failure, bool charged
) {
  if (pass.preparing() || !asks_for_replacement(pass, failure)) return {};
  if (!is_true(pass.status(), condition::kAccepted)) return {.why_not = "the spec is not accepted"};
  if (lost.node == 0) return {.why_not = "node 0 hosts the store"};
  for (const NodeView& node : pass.gang.nodes) {
    if (node.node == lost.node || stands(node)) continue;
    return {.why_not = "node " + std::to_string(node.node) + " is not running either"};
  }
  if (key_was_lost(pass)) {
    return {.why_not = "the other nodes have another data key"};
  }
  if (charged && !restart_is_left(pass)) return {.why_not = "no restart is left"};
  if (std::cmp_greater_equal(pass.status().replaced_nodes.size(), api::kMaxReplacedNodes)) {
    return {.why_not = "the attempt has replaced as many pods as its status can name"};
  }
  const api::ProgressReport* said = pass.last_report();
  if (said != nullptr && !said->restarts_nodes) {
    return {.why_not = "the worker cannot restart a node alone"};
  }
  if (said != nullptr && said->awaited_node == lost.node) return {.verdict = Verdict::Yes};
  if (earliest_now(pass.in) < pass.awaits_culprit_until()) return {.verdict = Verdict::Wait};
  return {.why_not = "node 0 does not wait for it"};
}

const NodeView* silent_awaited_node(const Pass& pass) {
  const api::ProgressReport* said = pass.last_report();
  if (said == nullptr || !said->awaited_node) return nullptr;
  for (const NodeView& node : pass.gang.nodes) {
    const bool silent = node.suspicion && node.suspicion->kind == FailureKind::NodeLost;
    if (silent && node.node == *said->awaited_node) return &node;
  }
  return nullptr;
}

void replace_node(Pass& pass, int64_t node, bool charged) {
  api::GnnJobStatus& status = pass.status();
  const int64_t round = next_round(pass);
  if (charged) status.restarts += round - status.round;
  status.round = round;
  status.replaced_nodes.push_back(node);
  pass.set(
      condition::kScheduled,
      false,
      reason::kCreating,
      "Replacing the pod of node " + std::to_string(node)
  );
  pass.requeue(Duration::zero());
}

void remove_replaced_pods(Pass& pass) {
  for (const objects::Pod* pod : pass.gang.replaced) remove_pod(pass, *pod);
}

}  // namespace gnn::reconcile
