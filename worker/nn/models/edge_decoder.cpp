#include "worker/nn/models/edge_decoder.h"

#include "worker/nn/functional/matmul.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/relu.h>
#include <c10/util/Exception.h>

namespace gnn::nn {

at::Tensor dot_scores(const at::Tensor& source, const at::Tensor& destination) {
  return (source * destination).sum(-1);
}

EdgeDecoderImpl::EdgeDecoderImpl(int64_t channels, int64_t hidden_channels) {
  TORCH_CHECK(
      channels > 0 && hidden_channels > 0,
      "EdgeDecoder: expected positive channels, found ",
      channels,
      " and ",
      hidden_channels
  );
  lin1_ = register_module("lin1", torch::nn::Linear(2 * channels, hidden_channels));
  lin2_ = register_module("lin2", torch::nn::Linear(hidden_channels, 1));
}

at::Tensor EdgeDecoderImpl::forward(
    const at::Tensor& source, const at::Tensor& destination, at::ScalarType operands
) {
  const at::Tensor pairs = at::cat({source, destination}, 1).to(operands);
  const at::Tensor hidden = linear_rows(pairs, lin1_->weight, lin1_->bias).relu_();
  return linear_rows(hidden, lin2_->weight, lin2_->bias, score_type(operands)).view({-1});
}

}  // namespace gnn::nn
