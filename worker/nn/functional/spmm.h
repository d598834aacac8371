#pragma once

#include "worker/nn/sparse/csr.h"
#include "worker/nn/sparse/spmm_options.h"

#include <ATen/core/Tensor.h>

namespace gnn::nn {

/// The type of spmm's scales for an x of type `x`: float32 for bfloat16, otherwise the same.
[[nodiscard]] at::ScalarType spmm_scale_type(at::ScalarType x);

/// out_i = root_scale_i root_i + row_scale_i sum over entries (i, j) of col_scale_j x_j
/// Without autograd. Sums run in the order of the entries, so that the bits do not depend on the
/// number of threads.
/// Shapes: x float32, float64 or bfloat16 [num_cols, F] on the matrix's device; result
/// [num_rows, F], of the type of x unless options.result says float32.
[[nodiscard]] at::Tensor spmm(
    const Csr& matrix, const at::Tensor& x, const SpmmOptions& options = {}
);

}  // namespace gnn::nn
