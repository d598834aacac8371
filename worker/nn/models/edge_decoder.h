#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

namespace gnn::nn {

/// The score of a pair: the inner product of its two rows.
/// Shapes: source and destination floating [P, F]; result [P].
[[nodiscard]] at::Tensor dot_scores(const at::Tensor& source, const at::Tensor& destination);

/// The score of a pair by a multilayer perceptron over its two rows side by side:
/// lin2(relu(lin1([source | destination]))), of widths 2 channels -> hidden_channels -> 1. Modules
/// are named as in PyG's example for Taobao.
class EdgeDecoderImpl : public torch::nn::Module {
 public:
  EdgeDecoderImpl(int64_t channels, int64_t hidden_channels);

  /// Products are of operands of type `operands`: that of the rows, or bfloat16 for float32 rows.
  /// Shapes: source and destination floating [P, channels]; result [P], of the type of the rows.
  at::Tensor forward(
      const at::Tensor& source, const at::Tensor& destination, at::ScalarType operands
  );

 private:
  torch::nn::Linear lin1_{nullptr};
  torch::nn::Linear lin2_{nullptr};
};
TORCH_MODULE(EdgeDecoder);

}  // namespace gnn::nn
