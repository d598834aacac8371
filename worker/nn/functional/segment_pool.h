#pragma once

#include <ATen/core/Tensor.h>

namespace gnn::nn {

enum class Pooling { Sum, Mean, Max };

/// Reduces the rows of each segment to one row; an empty segment gives zeros.
/// Shapes: x floating [N, F]; offsets int64 [S + 1], monotone from 0 to N, same device; result [S,
/// F]. The gradient of Max goes to the first row that has the maximum. Same bits for any number of
/// threads.
at::Tensor segment_pool(const at::Tensor& x, const at::Tensor& offsets, Pooling pooling);

}  // namespace gnn::nn
