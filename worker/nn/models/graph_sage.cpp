#include "worker/nn/models/graph_sage.h"

#include "worker/nn/functional/matmul.h"
#include "worker/nn/functional/relu_dropout.h"
#include "worker/nn/models/layers.h"

#include <c10/util/Exception.h>

#include <string>

namespace gnn::nn {

GraphSageImpl::GraphSageImpl(const GraphSageOptions& options) : options_(options) {
  for (const LayerWidth& width : layer_widths(
           {options.in_channels, options.hidden_channels, options.out_channels, options.layers}
       )) {
    layers_.push_back(register_module(
        "layers_" + std::to_string(layers_.size()),
        SageConv(SageConvOptions{
            .in_channels = width.in,
            .out_channels = width.out,
            .parameters = options.parameters,
        })
    ));
  }
}

at::Tensor GraphSageImpl::forward(const at::Tensor& x, const std::vector<graph::Block>& blocks) {
  check_blocks(x, blocks, options_.layers);
  at::Tensor h = x;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const graph::Block& block = blocks[layer];
    const bool last = layer + 1 == layers_.size();
    h = layers_[layer]->forward(
        h.narrow(0, 0, block.num_sources),
        block,
        last ? score_type(h.scalar_type()) : h.scalar_type()
    );
    h = activate(static_cast<int64_t>(layer), std::move(h));
  }
  return h;
}

MessagePassing& GraphSageImpl::conv(int64_t layer) {
  return *layers_.at(static_cast<size_t>(layer));
}

at::Tensor GraphSageImpl::activate(int64_t layer, at::Tensor h) {
  if (layer + 1 == options_.layers) return h;
  return relu_dropout(std::move(h), options_.dropout, is_training());
}

}  // namespace gnn::nn
