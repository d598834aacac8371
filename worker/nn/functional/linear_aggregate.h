#pragma once

#include "worker/nn/functional/csr.h"

#include <ATen/core/Tensor.h>

namespace gnn::nn {

/// Weights of a linear aggregation; an undefined tensor stands for ones (self_scale: for none at
/// all).
struct AggregateWeights {
  at::Tensor row_scale;     ///< [num_rows] of spmm_scale_type(x)
  at::Tensor col_scale;     ///< [num_cols]
  at::Tensor self_scale;    ///< [num_rows]: weight of x_i itself in out_i.
  bool skip_loops = false;  ///< Entries (i, i) don't count.
};

/// out_i = self_scale_i x_i + row_scale_i sum over entries (i, j) of col_scale_j x_j,
/// differentiable in x. Backward is the same sum over the transposed matrix: no atomics, same bits
/// for any number of threads.
at::Tensor linear_aggregate(
    const Csr& matrix, const at::Tensor& x, const AggregateWeights& weights
);

/// 1 / entries of each row, 0 for an empty one; of spmm_scale_type(x).
[[nodiscard]] at::Tensor inverse_row_sizes(const Csr& matrix, at::ScalarType x);

}  // namespace gnn::nn
