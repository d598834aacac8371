#include "worker/nn/models/mlp.h"

#include "worker/nn/functional/relu_dropout.h"
#include "worker/nn/models/layers.h"

#include <string>

namespace gnn::nn {

MlpImpl::MlpImpl(const MlpOptions& options) : options_(options) {
  for (const LayerWidth& width : layer_widths(
           {options.in_channels, options.hidden_channels, options.out_channels, options.layers}
       )) {
    layers_.push_back(register_module(
        "layers_" + std::to_string(layers_.size()), torch::nn::Linear(width.in, width.out)
    ));
  }
}

at::Tensor MlpImpl::forward(const at::Tensor& x, const std::vector<graph::Block>& blocks) {
  check_blocks(x, blocks, options_.layers);
  at::Tensor h = x.narrow(0, 0, blocks.back().num_dst);
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    h = layers_[layer]->forward(h);
    if (layer + 1 < layers_.size()) h = relu_dropout(std::move(h), options_.dropout, is_training());
  }
  return h;
}

at::Tensor MlpImpl::forward_layer(
    int64_t layer,
    const at::Tensor& x,
    const graph::Block& block,
    const at::Tensor& /*source_degrees*/
) {
  at::Tensor h = layers_.at(static_cast<size_t>(layer))->forward(x.narrow(0, 0, block.num_dst));
  if (layer + 1 == options_.layers) return h;
  return relu_dropout(std::move(h), options_.dropout, is_training());
}

}  // namespace gnn::nn
