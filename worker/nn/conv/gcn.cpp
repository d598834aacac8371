#include "worker/nn/conv/gcn.h"

#include "worker/nn/functional/aggregate.h"
#include "worker/nn/functional/matmul.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <torch/nn/init.h>

namespace gnn::nn {

GcnConvImpl::GcnConvImpl(const GcnConvOptions& options) : options_(options) {
  TORCH_CHECK(
      options.in_channels > 0 && options.out_channels > 0,
      "GcnConv: expected positive channels, found ",
      options.in_channels,
      " and ",
      options.out_channels
  );
  bias_ = register_parameter("bias", at::zeros({options.out_channels}));
  weight_ = register_parameter("weight", at::empty({options.out_channels, options.in_channels}));
  reset_parameters();
}

void GcnConvImpl::reset_parameters() {
  torch::nn::init::xavier_uniform_(weight_);
  torch::nn::init::zeros_(bias_);
}

at::Tensor GcnConvImpl::forward(
    const at::Tensor& x, const graph::Block& block, const at::Tensor& source_degrees
) {
  // The two maps commute: project first where that leaves fewer numbers to gather.
  if (options_.out_channels < options_.in_channels) {
    return gcn_aggregate(block, linear_rows(x, weight_), source_degrees) + bias_;
  }
  return linear_rows(gcn_aggregate(block, x.contiguous(), source_degrees), weight_, bias_);
}

}  // namespace gnn::nn
