#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace gnn::training {

/// The sum of the squares of all elements, in float64. Of tensors on the CPU, its bits depend on the
/// elements and their order alone, not on threads or instruction sets: ranks with equal gradients
/// get equal sums. Waits for a GPU, once.
/// Shapes: any; float32 or float64. Those that are not on the CPU are on one device.
[[nodiscard]] double sum_of_squares(const std::vector<at::Tensor>& tensors);

/// What gradients of this norm are multiplied by so that it is at most `max_norm`; 1 leaves them as
/// they are. A norm that is not finite is left to whoever reports it.
/// Source: torch.nn.utils.clip_grad_norm_, with its 1e-6.
[[nodiscard]] double clip_factor(double norm, double max_norm);

/// Multiplies the gradients in place.
void scale_gradients(const std::vector<at::Tensor>& parameters, double factor);

}  // namespace gnn::training
