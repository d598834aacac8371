#pragma once

#include "common/clock.h"
#include "controller/reconcile/pass.h"

#include <optional>
#include <string>
#include <string_view>

/// What follows from a node's failure: wait for its cause, release or restart the gang, or fail the
/// job.
namespace gnn::reconcile {

enum class FailureVerdict {
  AwaitCulprit,  ///< nodes failed, but only because of one that has not ended yet
  ReleaseGang,   ///< nodes gave up waiting for others that have no place
  RestartGang,
  ReplaceNode,  ///< the culprit's pod alone
  FailJob,
};

struct FailureDecision {
  FailureVerdict verdict = FailureVerdict::RestartGang;
  const NodeView* culprit = nullptr;  ///< the node that explains most
  NodeFailure failure;  ///< the culprit's; of a node that has not ended, what it is suspected of
  /// RestartGang, ReplaceNode, FailJob: the failure in a sentence, and the reason to report.
  std::string message{};
  std::string_view reason{};
  bool charged = false;  ///< counts against maxRestarts
  // AwaitCulprit: until when, and since when by our own clock.
  TimePoint await_until{};
  TimePoint awaits_since{};
};

/// Nothing if no node has failed.
[[nodiscard]] std::optional<FailureDecision> decide_failure(const Pass& pass);

/// Writes what was decided into the status. The caller describes a gang that waits.
void apply_failure(Pass& pass, const FailureDecision& decision);

/// Adds the in-place rounds that workers have reported to the restarts.
void count_rounds(Pass& pass);

}  // namespace gnn::reconcile
