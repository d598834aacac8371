#include "worker/nn/conv/sage.h"

#include "worker/nn/functional/linear_aggregate.h"
#include "worker/nn/functional/matmul.h"
#include "worker/nn/functional/sage_layer.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/split_with_sizes.h>
#include <c10/util/Exception.h>
#include <torch/nn/init.h>

#include <vector>

namespace gnn::nn {

SageConvImpl::SageConvImpl(const SageConvOptions& options) : options_(options) {
  const int64_t own_channels = options.destination_channels.value_or(options.in_channels);
  TORCH_CHECK(
      options.in_channels > 0 && options.out_channels > 0 && own_channels > 0,
      "SageConv: expected positive channels, found ",
      options.in_channels,
      " of sources, ",
      own_channels,
      " of destinations and ",
      options.out_channels,
      " of the result"
  );
  const bool dgl = options.parameters == SageParameters::Dgl;
  const auto linear = [&](const char* name, int64_t in_channels, bool bias) {
    return register_module(
        name,
        torch::nn::Linear(torch::nn::LinearOptions(in_channels, options.out_channels).bias(bias))
    );
  };
  // Registered in PyG's or DGL's order, too: it is the order of the optimizer's state.
  if (dgl) {
    neighbors_ = linear("fc_neigh", options.in_channels, false);
    self_ = linear("fc_self", own_channels, true);
  } else {
    neighbors_ = linear("lin_l", options.in_channels, true);
    self_ = linear("lin_r", own_channels, false);
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

at::Tensor SageConvImpl::forward(
    const at::Tensor& x, const graph::Block& block, std::optional<at::ScalarType> result
) {
  return sage_layer(block, x, self_->weight, neighbors_->weight, bias(), result);
}

at::Tensor SageConvImpl::forward(
    const at::Tensor& sources, const at::Tensor& destinations, const graph::Block& block
) {
  return sage_layer_between(
      block,
      {.sources = sources, .destinations = destinations},
      {.self = self_->weight, .neighbors = neighbors_->weight, .bias = bias()}
  );
}

std::pair<at::Tensor, at::Tensor> forward_together(
    SageConvImpl& first, SageConvImpl& second, const at::Tensor& x, const graph::Block& block
) {
  // One layer with the outputs of both.
  const at::Tensor out = sage_layer(
      block,
      x,
      at::cat({first.self_->weight, second.self_->weight}),
      at::cat({first.neighbors_->weight, second.neighbors_->weight}),
      at::cat({first.bias(), second.bias()})
  );
  const std::vector<at::Tensor> of_each =
      at::split_with_sizes(out, {first.out_channels(), second.out_channels()}, 1);
  return {of_each[0], of_each[1]};
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
