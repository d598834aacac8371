#pragma once

#include "worker/tasks/task.h"

#include <memory>

namespace gnn::tasks {

/// One class per graph of a set of small graphs, in block-diagonal mini-batches: DGL's
/// "Multi-GPU graph classification" and, with split KFold, the protocol of Xu et al. 2019.
[[nodiscard]] Parsed<std::unique_ptr<TaskRun>> parse_graph_classification(
    const api::GnnJobSpec& spec
);

}  // namespace gnn::tasks
