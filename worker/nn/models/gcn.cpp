#include "worker/nn/models/gcn.h"

#include "worker/nn/functional/csr.h"
#include "worker/nn/functional/matmul.h"
#include "worker/nn/functional/relu_dropout.h"
#include "worker/nn/models/layers.h"

#include <ATen/ops/zeros.h>

#include <string>

namespace gnn::nn {

GcnImpl::GcnImpl(const GcnOptions& options) : options_(options) {
  for (const LayerWidth& width : layer_widths(
           {options.in_channels, options.hidden_channels, options.out_channels, options.layers}
       )) {
    layers_.push_back(register_module(
        "convs_" + std::to_string(layers_.size()),
        GcnConv(GcnConvOptions{.in_channels = width.in, .out_channels = width.out})
    ));
  }
}

at::Tensor GcnImpl::forward(const at::Tensor& x, const std::vector<graph::Block>& blocks) {
  check_blocks(x, blocks, options_.layers);
  const graph::Block& outermost = blocks.front();
  at::Tensor degrees = at::zeros({outermost.num_sources}, outermost.indptr.options());
  degrees.narrow(0, 0, outermost.num_destinations).copy_(in_degrees_without_loops(outermost));
  at::Tensor h = x;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const graph::Block& block = blocks[layer];
    const bool last = layer + 1 == layers_.size();
    h = layers_[layer]->forward(
        h.narrow(0, 0, block.num_sources),
        block,
        degrees.narrow(0, 0, block.num_sources),
        last ? score_type(h.scalar_type()) : h.scalar_type()
    );
    h = activate(static_cast<int64_t>(layer), std::move(h));
  }
  return h;
}

MessagePassing& GcnImpl::conv(int64_t layer) {
  return *layers_.at(static_cast<size_t>(layer));
}

at::Tensor GcnImpl::activate(int64_t layer, at::Tensor h) {
  if (layer + 1 == options_.layers) return h;
  return relu_dropout(std::move(h), options_.dropout, is_training());
}

}  // namespace gnn::nn
