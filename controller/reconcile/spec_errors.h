#pragma once

#include "common/api/gnn_job.h"
#include "common/api/pod_metadata.h"
#include "controller/reconcile/config.h"

#include <optional>
#include <string>
#include <vector>

namespace gnn::reconcile {

/// What keeps the controller from running a job, each with its field; empty: nothing does.
[[nodiscard]] std::vector<std::string> spec_errors(
    const api::GnnJob& job, const api::AllowedKeys& allowed_keys
);

/// Why the job may not name its queue of Volcano, with the field, or an empty text.
[[nodiscard]] std::string volcano_queue_error(
    const api::GnnJob& job, const std::optional<VolcanoQueues>& allowed
);

/// What the job says about GPUs that it would not use, or an empty text.
[[nodiscard]] std::string idle_gpus(const api::GnnJobSpec& spec);

/// That no pod of the job can tell its tracker, or an empty text.
[[nodiscard]] std::string unreachable_tracker(
    const api::GnnJobSpec& spec, const OperatorConfig& config
);

}  // namespace gnn::reconcile
