#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/graph/dataset.h"
#include "worker/tasks/task.h"

namespace gnn::tasks {

/// Loads the data set of a job that classifies nodes. Collective.
/// Errors: those of load_dataset(); Data if it is not one graph with features and, unless the job's mode
/// is Inference, labels.
[[nodiscard]] Result<graph::Dataset> open_node_data(
    const api::GnnJobSpec& spec, TaskContext& context
);

}  // namespace gnn::tasks
