#pragma once

#include "controller/reconcile/pass.h"

#include <cstdint>
#include <string>

/// A lost node whose pod is replaced alone (action RestartNode) while the others wait for it in
/// their pods.
namespace gnn::reconcile {

/// Whether a rule of the job asks for it.
[[nodiscard]] bool may_replace_nodes(const api::GnnJob& job);

/// How many pods of the node were replaced in this attempt.
[[nodiscard]] int64_t restart_of(const api::GnnJobStatus& status, int64_t node);

struct ReplacementDecision {
  enum class Verdict {
    No,    ///< the whole gang restarts
    Wait,  ///< until node 0 says that it waits for the node, or leaves
    Yes,
  };
  Verdict verdict = Verdict::No;
  std::string why_not{};  ///< why No, although a rule asks for it
};

/// Whether a node that was lost by `failure` is to be replaced alone. `charged`: that counts against
/// maxRestarts.
[[nodiscard]] ReplacementDecision judge_replacement(
    const Pass& pass, const NodeView& lost, const NodeFailure& failure, bool charged
);

/// A node whose machine is silent and for which node 0 waits; null if there is none. It is lost,
/// though its pod has not ended.
[[nodiscard]] const NodeView* silent_awaited_node(const Pass& pass);

/// Notes in the status that the node has a new pod; the next pass creates it. The round for which the
/// others wait is counted here, and costs a restart only if the replacement is charged.
void replace_node(Pass& pass, int64_t node, bool charged);

/// Removes pods that were replaced. Nothing waits for that: they are fenced off.
void remove_replaced_pods(Pass& pass);

}  // namespace gnn::reconcile
