#pragma once

#include "worker/graph/block.h"
#include "worker/nn/conv/message_passing.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace gnn::nn {

/// Whose parameter names and initial values a SAGE layer has; it computes the same function.
enum class SageParameters {
  /// fc_self (with bias) and fc_neigh; weights Xavier-uniform with ReLU's gain, bias U(±1/√in).
  Dgl,
  Pyg,  ///< lin_l of the neighbours (with bias) and lin_r of the node itself; all U(±1/√in)
};

struct SageConvOptions {
  int64_t in_channels = 0;  ///< of the sources
  int64_t out_channels = 0;
  /// Of the destinations, if they are nodes of another type; otherwise as in_channels.
  std::optional<int64_t> destination_channels = {};
  SageParameters parameters = SageParameters::Dgl;
};

/// out_i = W_self x_i + W_neigh mean of x_j over i's in-edges + bias; without in-edges the
/// mean is 0.
/// Projects first where out_channels < in_channels, so that fewer numbers are gathered.
/// Source: Hamilton et al. 2017, alg. 1 with the mean aggregator of DGL and PyG.
class SageConvImpl : public torch::nn::Module, public MessagePassing {
 public:
  explicit SageConvImpl(const SageConvOptions& options);

  /// Shapes: x floating [num_sources, in_channels] on the block's device; result
  /// [num_destinations, out_channels], of the type of x or, for a bfloat16 x (mixed precision), of
  /// float32 if `result` says so.
  /// Errors: c10::Error if they do not match.
  at::Tensor forward(
      const at::Tensor& x, const graph::Block& block, std::optional<at::ScalarType> result = {}
  );

  /// The same between two node types: i is a destination, j a source.
  /// Shapes: sources floating [num_sources, in_channels]; destinations [num_destinations,
  /// destination_channels]; result [num_destinations, out_channels].
  /// Errors: c10::Error if they do not match.
  at::Tensor forward(
      const at::Tensor& sources, const at::Tensor& destinations, const graph::Block& block
  );

  /// What two layers of the same inputs give for one block, [num_destinations, out_channels] each.
  /// The rows of x are gathered once for both, forward and backward.
  /// Shapes: as those of forward(x, block).
  friend std::pair<at::Tensor, at::Tensor> forward_together(
      SageConvImpl& first, SageConvImpl& second, const at::Tensor& x, const graph::Block& block
  );

  [[nodiscard]] int64_t out_channels() const override { return options_.out_channels; }
  [[nodiscard]] bool projects_first() const override {
    return options_.out_channels < options_.in_channels;
  }
  [[nodiscard]] at::Tensor message(const at::Tensor& x) override;
  [[nodiscard]] at::Tensor aggregate(const at::Tensor& messages, const InEdges& edges) override;
  [[nodiscard]] at::Tensor root(const at::Tensor& x) override;
  [[nodiscard]] at::Tensor update(const at::Tensor& root, const at::Tensor& aggregated) override;

  void reset_parameters();
  [[nodiscard]] const SageConvOptions& options() const { return options_; }

 private:
  [[nodiscard]] const at::Tensor& bias() const;

  SageConvOptions options_;
  torch::nn::Linear self_{nullptr};
  torch::nn::Linear neighbors_{nullptr};
};
TORCH_MODULE(SageConv);

std::pair<at::Tensor, at::Tensor> forward_together(
    SageConvImpl& first, SageConvImpl& second, const at::Tensor& x, const graph::Block& block
);

}  // namespace gnn::nn
