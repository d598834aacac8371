#pragma once

#include "worker/graph/block.h"
#include "worker/nn/conv/gcn.h"
#include "worker/nn/models/model.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

namespace gnn::nn {

struct GcnOptions {
  int64_t in_channels = 0;
  int64_t hidden_channels = 16;
  int64_t out_channels = 0;  ///< classes
  int64_t layers = 2;
  double dropout = 0.5;
};

/// GCN layers with ReLU and dropout between them, as in PyG's tutorial "Multi-node multi-GPU".
/// forward() normalises by the degrees in the sampled subgraph, as PyG does. They come from
/// blocks[0]; a source without in-edges there (the frontier) counts its self-loop alone.
class GcnImpl : public NodeModel {
 public:
  explicit GcnImpl(const GcnOptions& options);

  at::Tensor forward(const at::Tensor& x, const std::vector<graph::Block>& blocks) override;
  [[nodiscard]] int64_t num_layers() const override { return options_.layers; }
  [[nodiscard]] MessagePassing& conv(int64_t layer) override;
  [[nodiscard]] at::Tensor activate(int64_t layer, at::Tensor h) override;
  [[nodiscard]] const GcnOptions& options() const { return options_; }

 private:
  GcnOptions options_;
  std::vector<GcnConv> layers_;
};
TORCH_MODULE(Gcn);

}  // namespace gnn::nn
