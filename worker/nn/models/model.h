#pragma once

#include "worker/graph/block.h"

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
  /// Shapes: x floating [blocks[0].num_sources, in_channels]; result
  /// [blocks.back().num_destinations, classes].
  virtual at::Tensor forward(const at::Tensor& x, const std::vector<graph::Block>& blocks) = 0;

  /// One layer with its activation, for exact inference layer by layer over all nodes.
  /// `source_degrees` are the sources' in-degrees without self-loops in the whole graph
  /// (in_degrees_without_loops); only layers that normalise by degree read them.
  /// Shapes: x floating [block.num_sources, the layer's input width]; source_degrees int64
  /// [block.num_sources]; result [block.num_destinations, the layer's output width].
  virtual at::Tensor forward_layer(
      int64_t layer,
      const at::Tensor& x,
      const graph::Block& block,
      const at::Tensor& source_degrees
  ) = 0;

  [[nodiscard]] virtual int64_t num_layers() const = 0;
};

/// A network with a row of scores per graph of a batch.
class GraphModel : public torch::nn::Module {
 public:
  /// `block` is the batch's block-diagonal graph: num_sources == num_destinations == nodes of all
  /// graphs.
  /// Shapes: x floating [block.num_sources, in_channels]; graph_offsets int64 [graphs + 1]; result
  /// [graphs, classes].
  virtual at::Tensor forward(
      const at::Tensor& x, const graph::Block& block, const at::Tensor& graph_offsets
  ) = 0;
};

}  // namespace gnn::nn
