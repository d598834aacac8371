#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gnn::nn::cpu {

/// x = max(x, 0) in place, then zeroes each element with probability p and divides the others by
/// 1 - p. Whether element i is zeroed is a function of (key, i) alone.
/// Shapes: x contiguous, float32, float64 or bfloat16.
/// Errors: c10::Error for another type.
void relu_dropout(const at::Tensor& x, double p, uint64_t key);

/// output > 0 ? grad_output * scale : 0
/// Shapes: as relu_dropout's x, all alike.
[[nodiscard]] at::Tensor relu_dropout_backward(
    const at::Tensor& output, const at::Tensor& grad_output, double scale
);

}  // namespace gnn::nn::cpu
