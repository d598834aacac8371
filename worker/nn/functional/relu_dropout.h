#pragma once

#include <ATen/core/Tensor.h>

namespace gnn::nn {

/// max(x, 0); in training each element is then zeroed with probability p and the others are divided
/// by 1 - p. Reuses the storage of x for the result. Takes one pass forward and one backward, and
/// keeps no mask. Draws one number per call from torch's default CPU generator, of which each
/// element's draw is a function, so that the bits do not depend on the number of threads.
at::Tensor relu_dropout(at::Tensor x, double p, bool training);

}  // namespace gnn::nn
