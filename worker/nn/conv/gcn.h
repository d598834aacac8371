#pragma once

#include "worker/graph/block.h"
#include "worker/nn/conv/message_passing.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>

namespace gnn::nn {

struct GcnConvOptions {
  int64_t in_channels = 0;
  int64_t out_channels = 0;
};

/// out = D^-1/2 (A + I) D^-1/2 x W + b, with exactly one self-loop per node: existing ones count
/// once, as with PyG's add_remaining_self_loops. Parameters as in PyG: weight Glorot-uniform, bias
/// 0.
/// Source: Kipf and Welling 2017, eq. 2.
class GcnConvImpl : public torch::nn::Module, public MessagePassing {
 public:
  explicit GcnConvImpl(const GcnConvOptions& options);

  /// D of a destination comes from the block's own edges, D of a source from source_degrees: its
  /// in-edges without self-loops in the graph that normalises (see in_degrees_without_loops).
  /// Shapes: x floating [num_sources, in_channels]; source_degrees int64 [num_sources]; result
  /// [num_destinations, out_channels], of the type of x or, for a bfloat16 x (mixed precision), of
  /// float32 if `result` says so.
  at::Tensor forward(
      const at::Tensor& x,
      const graph::Block& block,
      const at::Tensor& source_degrees,
      std::optional<at::ScalarType> result = {}
  );

  [[nodiscard]] int64_t out_channels() const override { return options_.out_channels; }
  /// The projection and the sum over neighbours commute.
  [[nodiscard]] bool projects_first() const override {
    return options_.out_channels < options_.in_channels;
  }
  /// A destination's own input is one of its messages.
  [[nodiscard]] bool has_root() const override { return false; }
  [[nodiscard]] bool normalizes_by_degree() const override { return true; }
  /// The three steps have no gradients.
  [[nodiscard]] at::Tensor message(const at::Tensor& x) override;
  [[nodiscard]] at::Tensor aggregate(const at::Tensor& messages, const InEdges& edges) override;
  [[nodiscard]] at::Tensor root(const at::Tensor& /*x*/) override { return {}; }
  [[nodiscard]] at::Tensor update(const at::Tensor& root, const at::Tensor& aggregated) override;

  void reset_parameters();
  [[nodiscard]] const GcnConvOptions& options() const { return options_; }

 private:
  GcnConvOptions options_;
  at::Tensor weight_;  // [out, in]
  at::Tensor bias_;
};
TORCH_MODULE(GcnConv);

}  // namespace gnn::nn
