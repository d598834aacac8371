#pragma once

#include <ATen/core/Tensor.h>

namespace gnn::nn {

/// Row rows[i] of x for each i, differentiable in x: at::index_select with a backward whose bits do
/// not depend on the number of threads, on a GPU neither.
/// Shapes: x float32, float64 or bfloat16 [N, F]; rows int64 [K], in [0, N); result [K, F].
/// Errors: c10::Error naming the first row that is outside (on the CPU).
at::Tensor select_rows(const at::Tensor& x, const at::Tensor& rows);

}  // namespace gnn::nn
