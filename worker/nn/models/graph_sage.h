#pragma once

#include "worker/graph/block.h"
#include "worker/nn/conv/sage.h"
#include "worker/nn/models/model.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

namespace gnn::nn {

struct GraphSageOptions {
  int64_t in_channels = 0;
  int64_t hidden_channels = 256;
  int64_t out_channels = 0;  ///< classes
  int64_t layers = 3;
  double dropout = 0.5;
  SageParameters parameters = SageParameters::Dgl;
};

/// SAGE layers with ReLU and dropout between them, as in DGL's tutorial "Multi-GPU node
/// classification" and PyG's "Multi-GPU Training in Vanilla PyTorch".
class GraphSageImpl : public NodeModel {
 public:
  explicit GraphSageImpl(const GraphSageOptions& options);

  at::Tensor forward(const at::Tensor& x, const std::vector<graph::Block>& blocks) override;
  [[nodiscard]] int64_t num_layers() const override { return options_.layers; }
  [[nodiscard]] MessagePassing& conv(int64_t layer) override;
  [[nodiscard]] at::Tensor activate(int64_t layer, at::Tensor h) override;
  [[nodiscard]] const GraphSageOptions& options() const { return options_; }

 private:
  GraphSageOptions options_;
  std::vector<SageConv> layers_;
};
TORCH_MODULE(GraphSage);

}  // namespace gnn::nn
