#include "worker/nn/conv/gcn.h"

#include "worker/nn/functional/aggregate.h"
#include "worker/nn/functional/matmul.h"
#include "worker/nn/functional/spmm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <torch/nn/init.h>

namespace gnn::nn {

GcnConvImpl::GcnConvImpl(const GcnConvOptions& options) : options_(options) {
  TORCH_CHECK(
      options.in_channels > 0 && options.out_channels > 0,
      "GcnConv: expected positive channels, found ",
      options.in_channels,
      " and ",
      options.out_channels
  );
  bias_ = register_parameter("bias", at::zeros({options.out_channels}));
  weight_ = register_parameter("weight", at::empty({options.out_channels, options.in_channels}));
  reset_parameters();
}

void GcnConvImpl::reset_parameters() {
  torch::nn::init::xavier_uniform_(weight_);
  torch::nn::init::zeros_(bias_);
}

at::Tensor GcnConvImpl::forward(
    const at::Tensor& x,
    const graph::Block& block,
    const at::Tensor& source_degrees,
    std::optional<at::ScalarType> result
) {
  if (!projects_first()) {
    const at::Tensor aggregated = gcn_aggregate(block, x.contiguous(), source_degrees);
    return linear_rows(aggregated, weight_, bias_, result);
  }
  const at::Tensor projected = linear_rows(x, weight_);
  const at::Tensor aggregated =
      gcn_aggregate(block, projected, source_degrees, score_type(x.scalar_type()));
  return (aggregated + bias_).to(result.value_or(x.scalar_type()));
}

at::Tensor GcnConvImpl::message(const at::Tensor& x) {
  return projects_first() ? mm_rows(x, weight_.t()) : x;
}

at::Tensor GcnConvImpl::aggregate(const at::Tensor& messages, const InEdges& edges) {
  const at::Tensor norm = edges.norm.index_select(0, edges.nodes);
  return spmm(
      edges.matrix,
      messages,
      {.row_scale = norm,
       .col_scale = edges.norm,
       .root = messages.index_select(0, edges.nodes),
       .root_scale = norm * norm,
       .skip_loops = true,
       .own_columns = edges.nodes}
  );
}

at::Tensor GcnConvImpl::update(const at::Tensor& /*root*/, const at::Tensor& aggregated) {
  return projects_first() ? aggregated + bias_ : linear_rows(aggregated, weight_, bias_);
}

}  // namespace gnn::nn
