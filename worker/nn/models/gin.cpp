#include "worker/nn/models/gin.h"

#include "worker/nn/functional/matmul.h"
#include "worker/nn/models/layers.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/relu.h>
#include <c10/util/Exception.h>

#include <string>

namespace gnn::nn {

GinImpl::GinImpl(const GinOptions& options) : options_(options) {
  const bool every_layer = options.readout == Readout::EveryLayer;
  const auto widths = layer_widths({
      options.in_channels,
      options.hidden_channels,
      every_layer ? options.hidden_channels : options.out_channels,
      options.layers,
  });
  for (size_t layer = 0; layer < widths.size(); ++layer) {
    const std::string suffix = std::to_string(layer);
    layers_.push_back(register_module(
        "layers_" + suffix,
        GinConv(GinConvOptions{
            .in_channels = widths[layer].in,
            .hidden_channels = options.hidden_channels,
            .out_channels = widths[layer].out,
            .mlp_layers = options.mlp_layers,
            .batch_norm = options.batch_norm,
            .learn_eps = options.learn_eps,
        })
    ));
    if (options.batch_norm && (every_layer || layer + 1 < widths.size())) {
      norms_.push_back(register_module("norms_" + suffix, torch::nn::BatchNorm1d(widths[layer].out))
      );
    }
  }
  pool_ = register_module("pool", GraphPool(GraphPoolOptions{.pooling = options.pooling}));
  if (!every_layer) return;
  scores_.push_back(
      register_module("scores_0", torch::nn::Linear(options.in_channels, options.out_channels))
  );
  for (size_t layer = 0; layer < widths.size(); ++layer) {
    scores_.push_back(register_module(
        "scores_" + std::to_string(layer + 1),
        torch::nn::Linear(widths[layer].out, options.out_channels)
    ));
  }
}

at::Tensor GinImpl::forward(
    const at::Tensor& x, const graph::Block& block, const at::Tensor& graph_offsets
) {
  TORCH_CHECK(
      block.num_sources == block.num_destinations,
      "Gin: expected a whole graph (num_sources == num_destinations), found num_sources ",
      block.num_sources,
      " and num_destinations ",
      block.num_destinations
  );
  const bool mixed = x.scalar_type() == at::kBFloat16;
  const auto score = [&](size_t index, const at::Tensor& h) {
    const at::Tensor pooled = pool_->forward(h, graph_offsets);
    torch::nn::Linear& linear = scores_[index];
    return at::dropout(
        mixed ? linear_mixed(pooled, linear->weight, linear->bias) : linear->forward(pooled),
        options_.dropout,
        is_training()
    );
  };
  at::Tensor h = x.to(score_type(x.scalar_type()));
  at::Tensor total;
  if (!scores_.empty()) total = score(0, h);
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    h = mixed ? layers_[layer]->forward_mixed(h, block) : layers_[layer]->forward(h, block);
    if (layer < norms_.size()) h = norms_[layer]->forward(h);
    if (layer + 1 < layers_.size() || !scores_.empty()) h = at::relu_(h);
    if (!scores_.empty()) total = total + score(layer + 1, h);
  }
  return scores_.empty() ? pool_->forward(h, graph_offsets) : total;
}

}  // namespace gnn::nn
