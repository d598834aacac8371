#pragma once

#include "worker/nn/functional/segment_pool.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace gnn::nn {

struct GraphPoolOptions {
  Pooling pooling = Pooling::Sum;
};

/// One row per graph of a batch from the rows of its nodes.
class GraphPoolImpl : public torch::nn::Module {
 public:
  explicit GraphPoolImpl(const GraphPoolOptions& options) : options_(options) {}

  /// Shapes: x floating [nodes, F]; graph_offsets int64 [graphs + 1]; result [graphs, F].
  at::Tensor forward(const at::Tensor& x, const at::Tensor& graph_offsets) {
    return segment_pool(x, graph_offsets, options_.pooling);
  }

 private:
  GraphPoolOptions options_;
};
TORCH_MODULE(GraphPool);

}  // namespace gnn::nn
