#include "worker/nn/functional/linear_aggregate.h"

#include "worker/nn/functional/csr.h"
#include "worker/nn/functional/spmm.h"

#include <ATen/ops/diff.h>
#include <torch/csrc/autograd/custom_function.h>

namespace gnn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class LinearAggregate : public torch::autograd::Function<LinearAggregate> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const Csr& matrix,
      const AggregateWeights& weights
  ) {
    context->save_for_backward(
        {matrix.indptr, matrix.indices, weights.row_scale, weights.col_scale, weights.self_scale}
    );
    context->saved_data["num_rows"] = matrix.num_rows;
    context->saved_data["num_cols"] = matrix.num_cols;
    context->saved_data["skip_loops"] = weights.skip_loops;
    context->saved_data["type"] = static_cast<int64_t>(x.scalar_type());
    SpmmOptions options{
        .row_scale = weights.row_scale,
        .col_scale = weights.col_scale,
        .root = {},
        .root_scale = weights.self_scale,
        .skip_loops = weights.skip_loops,
        .own_columns = {},
        .result = weights.result,
    };
    if (weights.self_scale.defined()) {
      options.root = x.narrow(0, 0, matrix.num_rows).to(weights.result.value_or(x.scalar_type()));
    }
    return spmm(matrix, x, options);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Csr matrix{
        .indptr = saved[0],
        .indices = saved[1],
        .num_rows = context->saved_data["num_rows"].toInt(),
        .num_cols = context->saved_data["num_cols"].toInt(),
    };
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    const at::Tensor gradient = gradients[0].to(type).contiguous();
    SpmmOptions options{
        .row_scale = saved[3],
        .col_scale = saved[2],
        .root = {},
        .root_scale = saved[4],
        .skip_loops = context->saved_data["skip_loops"].toBool(),
    };
    if (saved[4].defined()) options.root = gradient;
    return {spmm(transpose(matrix), gradient, options), {}, {}};
  }
};

}  // namespace

at::Tensor linear_aggregate(
    const Csr& matrix, const at::Tensor& x, const AggregateWeights& weights
) {
  return LinearAggregate::apply(x, matrix, weights);
}

at::Tensor inverse_row_sizes(const Csr& matrix, at::ScalarType x) {
  const at::Tensor sizes = at::diff(matrix.indptr).to(spmm_scale_type(x));
  return sizes.reciprocal().masked_fill_(sizes.eq(0), 0);
}

}  // namespace gnn::nn
