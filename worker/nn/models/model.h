#pragma once

#include "worker/graph/block.h"
#include "worker/nn/conv/message_passing.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <vector>

namespace gnn::nn {

/// A network with a row of scores per seed node.
class NodeModel : public torch::nn::Module {
 public:
  /// One block per layer, outermost first; each one's sources are a prefix of the destinations of
  /// the one before. The whole graph (num_sources == num_destinations) in every place runs it
  /// through all layers.
  /// The parameters are of the type of x; or x is bfloat16 and they are float32 (mixed precision):
  /// then operands of products and of sums over neighbours are bfloat16, and the scores float32.
  /// Shapes: x floating [blocks[0].num_sources, in_channels]; result
  /// [blocks.back().num_destinations, classes].
  virtual at::Tensor forward(const at::Tensor& x, const std::vector<graph::Block>& blocks) = 0;

  [[nodiscard]] virtual int64_t num_layers() const = 0;
  /// The convolution of a layer, for inference layer by layer over all nodes.
  [[nodiscard]] virtual MessagePassing& conv(int64_t layer) = 0;
  /// What the model does with the convolution's output `h` before the next layer, or with the last
  /// one's. May reuse the storage of h.
  [[nodiscard]] virtual at::Tensor activate(int64_t layer, at::Tensor h) = 0;
};

/// A network with a row of scores per graph of a batch.
class GraphModel : public torch::nn::Module {
 public:
  /// `block` is the batch's block-diagonal graph: num_sources == num_destinations == nodes of all
  /// graphs.
  /// A bfloat16 x: as NodeModel::forward().
  /// Shapes: x floating [block.num_sources, in_channels]; graph_offsets int64 [graphs + 1]; result
  /// [graphs, classes].
  virtual at::Tensor forward(
      const at::Tensor& x, const graph::Block& block, const at::Tensor& graph_offsets
  ) = 0;
};

}  // namespace gnn::nn
