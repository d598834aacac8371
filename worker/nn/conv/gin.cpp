#include "worker/nn/conv/gin.h"

#include "worker/nn/functional/aggregate.h"
#include "worker/nn/functional/matmul.h"

#include <ATen/ops/full.h>
#include <c10/util/Exception.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

namespace gnn::nn {
namespace {

torch::nn::Sequential make_mlp(const GinConvOptions& options) {
  torch::nn::Sequential mlp;
  int64_t width = options.in_channels;
  for (int64_t layer = 1; layer < options.mlp_layers; ++layer) {
    mlp->push_back(torch::nn::Linear(width, options.hidden_channels));
    if (options.batch_norm) mlp->push_back(torch::nn::BatchNorm1d(options.hidden_channels));
    mlp->push_back(torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
    width = options.hidden_channels;
  }
  mlp->push_back(torch::nn::Linear(width, options.out_channels));
  return mlp;
}

}  // namespace

GinConvImpl::GinConvImpl(const GinConvOptions& options) : options_(options) {
  TORCH_CHECK(
      options.in_channels > 0 && options.out_channels > 0 && options.mlp_layers >= 1 &&
          (options.mlp_layers == 1 || options.hidden_channels > 0),
      "GinConv: expected positive channels and at least one layer, found in ",
      options.in_channels,
      ", hidden ",
      options.hidden_channels,
      ", out ",
      options.out_channels,
      ", layers ",
      options.mlp_layers
  );
  const at::Tensor eps = at::full({1}, options.eps);
  eps_ = options.learn_eps ? register_parameter("eps", eps) : register_buffer("eps", eps);
  mlp_ = register_module("mlp", make_mlp(options));
}

at::Tensor GinConvImpl::forward(const at::Tensor& x, const graph::Block& block) {
  const at::Tensor sums = aggregate(block, x.contiguous(), Aggregation::Sum);
  return mlp_->forward(sums + x.narrow(0, 0, block.num_destinations) * (eps_ + 1));
}

at::Tensor GinConvImpl::forward_mixed(const at::Tensor& x, const graph::Block& block) {
  const at::Tensor sums =
      aggregate(block, x.to(at::kBFloat16).contiguous(), Aggregation::Sum, at::kFloat);
  at::Tensor h = sums + x.narrow(0, 0, block.num_destinations) * (eps_ + 1);
  for (torch::nn::AnyModule& module : *mlp_) {
    const auto* const linear = module.ptr()->as<torch::nn::Linear>();
    h = linear != nullptr ? linear_mixed(h, linear->weight, linear->bias) : module.forward(h);
  }
  return h;
}

}  // namespace gnn::nn
