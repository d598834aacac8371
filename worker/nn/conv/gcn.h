#pragma once

#include "worker/graph/block.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

namespace gnn::nn {

struct GcnConvOptions {
  int64_t in_channels = 0;
  int64_t out_channels = 0;
};

/// out = D^-1/2 (A + I) D^-1/2 x W + b, with exactly one self-loop per node: existing ones count
/// once, as with PyG's add_remaining_self_loops. Parameters as in PyG: weight Glorot-uniform, bias
/// 0.
/// Source: Kipf and Welling 2017, eq. 2.
class GcnConvImpl : public torch::nn::Module {
 public:
  explicit GcnConvImpl(const GcnConvOptions& options);

  /// D of a destination comes from the block's own edges, D of a source from source_degrees: its
  /// in-edges without self-loops in the graph that normalises (see in_degrees_without_loops).
  /// Shapes: x floating [num_sources, in_channels]; source_degrees int64 [num_sources]; result
  /// [num_destinations, out_channels].
  at::Tensor forward(
      const at::Tensor& x, const graph::Block& block, const at::Tensor& source_degrees
  );

  void reset_parameters();
  [[nodiscard]] const GcnConvOptions& options() const { return options_; }

 private:
  GcnConvOptions options_;
  at::Tensor weight_;  // [out, in]
  at::Tensor bias_;
};
TORCH_MODULE(GcnConv);

}  // namespace gnn::nn
