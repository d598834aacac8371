#pragma once

#include "worker/tasks/task.h"

#include <memory>

namespace gnn::tasks {

/// Trains a model to tell links from pairs of nodes without one, with links of one edge type held out
/// (nn::LinkModel).
[[nodiscard]] Parsed<std::unique_ptr<TaskRun>> parse_link_prediction(const api::GnnJobSpec& spec);

}  // namespace gnn::tasks
