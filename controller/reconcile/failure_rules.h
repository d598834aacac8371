#pragma once

#include "common/api/gnn_job.h"
#include "controller/reconcile/gang.h"

#include <cstddef>
#include <optional>

/// What a user wants done about certain failures.
namespace gnn::reconcile {

/// The position of the first of failurePolicy.rules that matches; nothing if none does.
[[nodiscard]] std::optional<size_t> find_rule(
    const api::FailurePolicy& policy, const NodeFailure& failure
);

}  // namespace gnn::reconcile
