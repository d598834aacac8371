#pragma once

#include <ATen/core/Tensor.h>

namespace gnn::nn {

/// max(x, 0), then, when training, each element zeroed with probability p and the others divided by
/// 1 - p. Takes x over: its storage becomes the result's. One pass forward, one backward, no mask
/// kept. Draws one number from torch's default CPU generator per call (the element draws are
/// counted from it, so they don't depend on the number of threads).
at::Tensor relu_dropout(at::Tensor x, double p, bool training);

}  // namespace gnn::nn
