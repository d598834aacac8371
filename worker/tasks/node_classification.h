#pragma once

#include "worker/tasks/task.h"

#include <memory>

namespace gnn::tasks {

/// One class per node of one big graph, in mini-batches of sampled neighbourhoods:
/// DGL's "Multi-GPU node classification", PyG's "Multi-node multi-GPU".
[[nodiscard]] Parsed<std::unique_ptr<TaskRun>> parse_node_classification(const api::GnnJobSpec& spec
);

}  // namespace gnn::tasks
