#pragma once

#include "common/result.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

namespace gnn::nn {

/// Checks before training that each parameter of `module` gets a gradient of `loss`, which its
/// forward() has just led to. Data-parallel training waits for a gradient of each parameter, so that
/// one without would make the ranks hang.
/// Computes the gradients once and keeps none: those of the parameters stay as they are, no hook
/// runs. `loss` cannot be differentiated again.
/// Errors: Configuration naming the parameters without a gradient.
[[nodiscard]] Status check_gradients(const torch::nn::Module& module, const at::Tensor& loss);

}  // namespace gnn::nn
