#pragma once

#include "worker/nn/sparse/csr.h"

#include <ATen/core/Tensor.h>

#include <optional>

namespace gnn::nn {

/// Weights of a linear aggregation, of type spmm_scale_type(x). An undefined scale is all ones; an
/// undefined self_scale leaves x_i out.
struct AggregateWeights {
  at::Tensor row_scale;     ///< [num_rows]
  at::Tensor col_scale;     ///< [num_cols]
  at::Tensor self_scale;    ///< [num_rows]: weight of x_i itself in out_i
  bool skip_loops = false;  ///< leaves out entries (i, i)
  /// Of the result: as x if absent, or float32 for a bfloat16 x.
  std::optional<at::ScalarType> result = {};
};

/// out_i = self_scale_i x_i + row_scale_i sum over entries (i, j) of col_scale_j x_j Differentiable
/// in x. Backward is the same sum over the transposed matrix, without atomics, so that the bits do
/// not depend on the number of threads.
at::Tensor linear_aggregate(
    const Csr& matrix, const at::Tensor& x, const AggregateWeights& weights
);

/// 1 / entries of each row, 0 for an empty row; of type spmm_scale_type(x).
[[nodiscard]] at::Tensor inverse_row_sizes(const Csr& matrix, at::ScalarType x);

}  // namespace gnn::nn
