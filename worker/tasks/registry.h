#pragma once

#include "worker/tasks/task.h"

#include <span>

namespace gnn::tasks {

/// Every task there is.
[[nodiscard]] std::span<const Task> all_tasks();

/// Validates the whole spec, then hands it to its task.
/// Errors: all that is found, each with its path; never empty.
[[nodiscard]] Parsed<std::unique_ptr<TaskRun>> parse_task(const api::GnnJob& job);

/// The errors as one of kind Configuration.
[[nodiscard]] Error to_error(const std::vector<api::FieldError>& errors);

}  // namespace gnn::tasks
