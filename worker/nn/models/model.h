#pragma once

#include "worker/graph/block.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <vector>

namespace gnn::nn {

/// A network that gives each seed node a row of scores.
class NodeModel : public torch::nn::Module {
 public:
  /// Shapes: x floating [blocks[0].num_src, in_channels]; one block a layer, outermost first, each
  /// one's sources being a prefix of the destinations of the one before; result
  /// [blocks.back().num_dst, classes]. The same block in every place (num_src == num_dst) runs the
  /// whole graph through all layers.
  virtual at::Tensor forward(const at::Tensor& x, const std::vector<graph::Block>& blocks) = 0;

  /// One layer with its activation, for exact inference layer by layer over all nodes.
  /// Shapes: x floating [block.num_src, width of the layer's input]; source_degrees int64
  /// [block.num_src]: in-degrees without self-loops in the whole graph (in_degrees_without_loops);
  /// result [block.num_dst, width of its output]. Only layers that normalise by degree read
  /// source_degrees.
  virtual at::Tensor forward_layer(
      int64_t layer,
      const at::Tensor& x,
      const graph::Block& block,
      const at::Tensor& source_degrees
  ) = 0;

  [[nodiscard]] virtual int64_t num_layers() const = 0;
};

/// A network that gives each graph of a batch a row of scores.
class GraphModel : public torch::nn::Module {
 public:
  /// Shapes: x floating [block.num_src, in_channels]; block is the batch's block-diagonal graph
  /// (num_src == num_dst == nodes of all graphs); graph_offsets int64 [graphs + 1]; result [graphs,
  /// classes].
  virtual at::Tensor forward(
      const at::Tensor& x, const graph::Block& block, const at::Tensor& graph_offsets
  ) = 0;
};

}  // namespace gnn::nn
