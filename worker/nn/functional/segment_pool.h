#pragma once

#include <ATen/core/Tensor.h>

namespace gnn::nn {

enum class Pooling { Sum, Mean, Max };

/// Reduces the rows of each segment to one row; an empty segment gives zeros. The gradient of Max
/// goes to the first row with the maximum. The bits do not depend on the number of threads.
/// Shapes: x floating [N, F]; offsets int64 [S + 1], monotone from 0 to N, on the same device;
/// result [S, F].
at::Tensor segment_pool(const at::Tensor& x, const at::Tensor& offsets, Pooling pooling);

}  // namespace gnn::nn
