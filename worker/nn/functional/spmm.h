#pragma once

#include "worker/nn/functional/csr.h"

#include <ATen/core/Tensor.h>

namespace gnn::nn {

/// What spmm does beside summing; an undefined tensor leaves its part out.
struct SpmmOptions {
  at::Tensor row_scale;  ///< [num_rows] of the scale type: multiplies each row's sum.
  at::Tensor col_scale;  ///< [num_cols] of the scale type: multiplies each row of x.
  at::Tensor root;       ///< [r, F] like x, r <= num_rows: added to the first r rows of the result.
  at::Tensor root_scale;    ///< [r] of the scale type: multiplies the rows of root.
  bool skip_loops = false;  ///< Leaves out entries whose row and column are equal.
};

/// The type that spmm's scales have for a given type of x: float for bfloat16, x's own otherwise.
[[nodiscard]] at::ScalarType spmm_scale_type(at::ScalarType x);

/// out_i = root_scale_i root_i + row_scale_i sum over entries (i, j) of col_scale_j x_j
/// Without autograd. Sums run in the order of the entries, so the bits are the same for any number
/// of threads. Shapes: x float32, float64 or bfloat16 [num_cols, F] on matrix's device; result
/// [num_rows, F]. The CPU runs rows in parallel with at::parallel_for.
[[nodiscard]] at::Tensor spmm(
    const Csr& matrix, const at::Tensor& x, const SpmmOptions& options = {}
);

}  // namespace gnn::nn
