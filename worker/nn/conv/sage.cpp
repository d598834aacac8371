#include "worker/nn/conv/sage.h"

#include "worker/nn/functional/linear_aggregate.h"
#include "worker/nn/functional/matmul.h"
#include "worker/nn/functional/sage_layer.h"

#include <c10/util/Exception.h>
#include <torch/nn/init.h>

namespace gnn::nn {

SageConvImpl::SageConvImpl(const SageConvOptions& options) : options_(options) {
  TORCH_CHECK(
      options.in_channels > 0 && options.out_channels > 0,
      "SageConv: expected positive channels, found ",
      options.in_channels,
      " and ",
      options.out_channels
  );
  const bool dgl = options.parameters == SageParameters::Dgl;
  const auto linear = [&](const char* name, bool bias) {
    return register_module(
        name,
        torch::nn::Linear(
            torch::nn::LinearOptions(options.in_channels, options.out_channels).bias(bias)
        )
    );
  };
  // Registered in PyG's or DGL's order, too: it is the order of the optimizer's state.
  if (dgl) {
    neighbors_ = linear("fc_neigh", false);
    self_ = linear("fc_self", true);
  } else {
    neighbors_ = linear("lin_l", true);
    self_ = linear("lin_r", false);
  }
  reset_parameters();
}

void SageConvImpl::reset_parameters() {
  self_->reset_parameters();
  neighbors_->reset_parameters();
  if (options_.parameters == SageParameters::Pyg) return;
  const double gain = torch::nn::init::calculate_gain(torch::kReLU);
  torch::nn::init::xavier_uniform_(self_->weight, gain);
  torch::nn::init::xavier_uniform_(neighbors_->weight, gain);
}

at::Tensor SageConvImpl::forward(const at::Tensor& x, const graph::Block& block) {
  return sage_layer(block, x, self_->weight, neighbors_->weight, bias());
}

const at::Tensor& SageConvImpl::bias() const {
  return self_->bias.defined() ? self_->bias : neighbors_->bias;
}

at::Tensor SageConvImpl::message(const at::Tensor& x) {
  return projects_first() ? linear_rows(x, neighbors_->weight) : x;
}

at::Tensor SageConvImpl::aggregate(const at::Tensor& messages, const InEdges& edges) {
  return linear_aggregate(
      edges.matrix,
      messages,
      {.row_scale = inverse_row_sizes(edges.matrix, messages.scalar_type()),
       .col_scale = {},
       .self_scale = {}}
  );
}

at::Tensor SageConvImpl::root(const at::Tensor& x) {
  return linear_rows(x, self_->weight, bias());
}

at::Tensor SageConvImpl::update(const at::Tensor& root, const at::Tensor& aggregated) {
  if (projects_first()) return aggregated + root;
  return linear_rows(aggregated, neighbors_->weight).add_(root);
}

}  // namespace gnn::nn
