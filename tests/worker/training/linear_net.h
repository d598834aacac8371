#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linspace.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

namespace gnn::training {

/// Three scores for each four numbers, in float64. Starts the same everywhere.
class LinearNet : public torch::nn::Module {
 public:
  LinearNet() {
    linear_ = register_module("linear", torch::nn::Linear(4, 3));
    to(at::kDouble);
    // Not from torch's generator, which the ranks, threads here, share.
    const at::NoGradGuard no_grad;
    linear_->weight.copy_(at::linspace(-0.5, 0.5, 12, at::kDouble).reshape({3, 4}));
    linear_->bias.zero_();
  }
  at::Tensor forward(const at::Tensor& x) { return linear_->forward(x); }
  [[nodiscard]] const at::Tensor& weight() const { return linear_->weight; }

 private:
  torch::nn::Linear linear_{nullptr};
};

}  // namespace gnn::training
