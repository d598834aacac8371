#pragma once

#include "common/api/gnn_job.h"
#include "controller/reconcile/gang.h"

#include <cstddef>
#include <optional>

/// What a user wants done about certain failures.
namespace gnn::reconcile {

/// The position of the first of failurePolicy.rules that matches; nothing if none does. A reason
/// that this version does not know is that of no failure. An action that it does not know is taken
/// for Restart: the restart waits (GnnJob::unknown_words), whereas the default might end the job.
[[nodiscard]] std::optional<size_t> find_rule(
    const api::GnnJob& job, api::FailureRole role, const NodeFailure& failure
);

}  // namespace gnn::reconcile
