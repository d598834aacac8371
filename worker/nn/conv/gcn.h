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

/// out = D^-1/2 (A + I) D^-1/2 x W + b, every node having exactly one self-loop (PyG's "remaining"
/// self-loops: one that is there counts once). Parameters as in PyG: weight Glorot-uniform, bias 0.
/// Source: Kipf and Welling 2017, eq. 2.
class GcnConvImpl : public torch::nn::Module {
 public:
  explicit GcnConvImpl(const GcnConvOptions& options);

  /// Shapes: x floating [num_src, in_channels]; source_degrees int64 [num_src], in-edges of each
  /// source without self-loops in the graph that normalises (see in_degrees_without_loops); result
  /// [num_dst, out_channels]. D of a destination comes from the block's own edges.
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
