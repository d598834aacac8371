#pragma once

#include "worker/graph/block.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

namespace gnn::nn {

struct GinConvOptions {
  int64_t in_channels = 0;
  int64_t hidden_channels = 0;  ///< width inside the MLP; unused if mlp_layers is 1
  int64_t out_channels = 0;
  int64_t mlp_layers = 2;  ///< linear layers, with ReLU between them
  bool batch_norm = true;  ///< before each ReLU inside the MLP
  double eps = 0;
  bool learn_eps = false;  ///< eps is a parameter, otherwise a buffer as in DGL
};

/// out_i = MLP((1 + eps) x_i + sum of x_j over i's in-edges).
/// Source: Xu et al. 2019, eq. 4.1.
class GinConvImpl : public torch::nn::Module {
 public:
  explicit GinConvImpl(const GinConvOptions& options);

  /// Shapes: x floating [num_sources, in_channels]; result [num_destinations, out_channels].
  at::Tensor forward(const at::Tensor& x, const graph::Block& block);

  /// The same in mixed precision: sums over neighbours and products of bfloat16 operands.
  /// Shapes: as above, all float32.
  at::Tensor forward_mixed(const at::Tensor& x, const graph::Block& block);

  [[nodiscard]] const GinConvOptions& options() const { return options_; }

 private:
  GinConvOptions options_;
  at::Tensor eps_;  // [1]
  torch::nn::Sequential mlp_{nullptr};
};
TORCH_MODULE(GinConv);

}  // namespace gnn::nn
