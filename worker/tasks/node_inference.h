#pragma once

#include "worker/tasks/task.h"

#include <memory>

namespace gnn::tasks {

/// Classes, scores or embeddings of nodes by a trained model, exactly: mode Inference of
/// NodeClassification.
[[nodiscard]] Parsed<std::unique_ptr<TaskRun>> parse_node_inference(const api::GnnJobSpec& spec);

}  // namespace gnn::tasks
