#pragma once

#include "worker/embedding/idle_steps.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace gnn::embedding {

/// The rows of a table with their moments.
/// Shapes: state [rows, 3, width], float32 or float64, contiguous on the CPU: of each row its
/// values, m and v, side by side so that they share pages. last_steps int32 [rows] has the step in
/// which a row last had a gradient, 0 for none; undefined where rows that are not touched rest.
struct TableRows {
  at::Tensor state;
  at::Tensor last_steps;
};

/// Gradients of some rows of a table.
/// Shapes: ids int64 [K], ascending and unique, below the table's
/// rows; gradients [K, width], of the table's type. Both contiguous on the CPU.
struct RowGradients {
  at::Tensor ids;
  at::Tensor gradients;
  double factor = 1;  ///< multiplies each gradient
};

/// The values of the rows `ids` (as in RowGradients) now, [K, width]: those that rest longer have
/// moved on as `idle` says. Changes nothing. Parallel over rows.
[[nodiscard]] at::Tensor read_rows(
    const TableRows& table, const at::Tensor& ids, const IdleSteps* idle
);
/// read_rows() of all rows from `begin` to `end`.
[[nodiscard]] at::Tensor read_range(
    const TableRows& table, int64_t begin, int64_t end, const IdleSteps* idle
);

/// The step after idle.steps() of torch's Adam on the whole table, where the other rows have a
/// gradient of zero: these stay as they are and move when they are read or updated next. The caller
/// advances `idle`. A row that is updated in each step has the bits of torch::optim::Adam's
/// operations, with roots that are rounded as IEEE 754 says.
/// Gives the first row whose gradient holds a NaN or an infinity, which is left as it is.
[[nodiscard]] std::optional<int64_t> update_all_rows(
    const TableRows& table, const RowGradients& mine, const IdleSteps& idle, double learning_rate
);

/// Step `step` (from 1) of torch.optim.SparseAdam: the other rows rest.
/// Gives the first row whose gradient holds a NaN or an infinity, which is left as it is.
[[nodiscard]] std::optional<int64_t> update_touched_rows(
    const TableRows& table, const RowGradients& mine, const AdamOptions& options, AdamStep step
);

}  // namespace gnn::embedding
