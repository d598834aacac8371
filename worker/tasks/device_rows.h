#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/tasks/task.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace gnn::tasks {

/// What shall lie on a rank's GPU beside its model.
struct DevicePlan {
  int64_t rows_bytes = 0;   ///< of all feature rows
  int64_t batch_bytes = 0;  ///< at most, of one batch's feature rows
  int64_t batches = 0;      ///< that lie there at once
  int64_t free_bytes = 0;   ///< of the GPU, before
  std::string device{};     ///< its name, as in "cuda:0"

  [[nodiscard]] int64_t bytes() const { return rows_bytes + batches * batch_bytes; }
};

/// The plan of a rank that reads `rows`, of which a batch has at most as many as its seeds with all
/// the neighbours that they may draw.
/// Shapes: rows [N, F].
[[nodiscard]] DevicePlan plan_device_rows(const at::Tensor& rows, const api::GnnJobSpec& spec);

/// In words, for the log.
[[nodiscard]] std::string text_of(const DevicePlan& plan);

/// Errors: Configuration naming spec.features.memory, what is needed and what is free, if it is too
/// much.
[[nodiscard]] Status check(const DevicePlan& plan);

/// `rows` on the rank's GPU if the spec asks for that, else an undefined tensor. Logs the plan first.
/// Errors: those of check(); OutOfMemory.
[[nodiscard]] Result<at::Tensor> rows_on_device(
    const at::Tensor& rows, const api::GnnJobSpec& spec, TaskContext& context
);

}  // namespace gnn::tasks
