#pragma once

#include "common/api/gnn_job.h"
#include "controller/reconcile/plan.h"

#include <vector>

namespace gnn::reconcile {

/// The events that tell users how the status changed.
[[nodiscard]] std::vector<EventRecord> events_between(
    const api::GnnJobStatus& before, const api::GnnJobStatus& after
);

}  // namespace gnn::reconcile
