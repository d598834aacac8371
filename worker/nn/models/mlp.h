#pragma once

#include "worker/graph/block.h"
#include "worker/nn/models/model.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

namespace gnn::nn {

struct MlpOptions {
  int64_t in_channels = 0;
  int64_t hidden_channels = 256;
  int64_t out_channels = 0;  ///< Classes.
  int64_t layers = 3;
  double dropout = 0.5;
};

/// GraphSAGE without its edges: what the features alone can tell. Reads the seeds' rows of x.
class MlpImpl : public NodeModel {
 public:
  explicit MlpImpl(const MlpOptions& options);

  at::Tensor forward(const at::Tensor& x, const std::vector<graph::Block>& blocks) override;
  at::Tensor forward_layer(
      int64_t layer,
      const at::Tensor& x,
      const graph::Block& block,
      const at::Tensor& source_degrees
  ) override;
  [[nodiscard]] int64_t num_layers() const override { return options_.layers; }

 private:
  MlpOptions options_;
  std::vector<torch::nn::Linear> layers_;
};
TORCH_MODULE(Mlp);

}  // namespace gnn::nn
