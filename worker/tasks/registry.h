#pragma once

#include "worker/tasks/task.h"

#include <memory>
#include <vector>

namespace gnn::tasks {

/// Validates the whole spec, then lets its task parse it.
/// Errors: everything that is wrong, each with its path; never empty.
[[nodiscard]] Parsed<std::unique_ptr<TaskRun>> parse_task(const api::GnnJob& job);

/// The errors as one error of kind Configuration.
[[nodiscard]] Error to_error(const std::vector<api::FieldError>& errors);

}  // namespace gnn::tasks
