#pragma once

#include "worker/graph/block.h"
#include "worker/nn/conv/gin.h"
#include "worker/nn/models/model.h"
#include "worker/nn/pool/graph_pool.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

namespace gnn::nn {

enum class Readout {
  /// The last layer has one column per class, and its pooled output is the score.
  LastLayer,
  /// The pooled input and each layer's pooled output go through their own Linear and dropout, and
  /// the scores are summed (Xu et al. 2019, eq. 4.2).
  EveryLayer,
};

struct GinOptions {
  int64_t in_channels = 0;
  int64_t hidden_channels = 64;
  int64_t out_channels = 0;  ///< classes
  int64_t layers = 5;        ///< convolutions
  int64_t mlp_layers = 2;    ///< linear layers in each convolution
  /// Inside the MLPs and after each convolution, except the last with Readout::LastLayer.
  bool batch_norm = true;
  bool learn_eps = false;
  double dropout = 0.5;  ///< of the scores, with Readout::EveryLayer
  Pooling pooling = Pooling::Sum;
  Readout readout = Readout::EveryLayer;
};

/// GIN layers with ReLU between them, and a readout over each graph. Readout::LastLayer is the
/// model of DGL's tutorial "Multi-GPU graph classification".
class GinImpl : public GraphModel {
 public:
  explicit GinImpl(const GinOptions& options);

  at::Tensor forward(
      const at::Tensor& x, const graph::Block& block, const at::Tensor& graph_offsets
  ) override;
  [[nodiscard]] const GinOptions& options() const { return options_; }

 private:
  GinOptions options_;
  std::vector<GinConv> layers_;
  std::vector<torch::nn::BatchNorm1d> norms_;  // as many as layers that end in ReLU, or none
  GraphPool pool_{nullptr};
  std::vector<torch::nn::Linear> scores_;  // layers + 1 with Readout::EveryLayer
};
TORCH_MODULE(Gin);

}  // namespace gnn::nn
