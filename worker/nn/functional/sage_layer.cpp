#include "worker/nn/functional/sage_layer.h"

#include "worker/nn/functional/csr.h"
#include "worker/nn/functional/linear_aggregate.h"
#include "worker/nn/functional/matmul.h"
#include "worker/nn/functional/spmm.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>

namespace gnn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool projects_first(const at::Tensor& weight) {
  return weight.size(0) < weight.size(1);
}

class SageLayer : public torch::autograd::Function<SageLayer> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight_self,
      const at::Tensor& weight_neighbors,
      const at::Tensor& bias,
      const Csr& matrix
  ) {
    const at::Tensor scale = inverse_row_sizes(matrix, x.scalar_type());
    const at::Tensor own_rows_of_x = x.narrow(0, 0, matrix.num_rows);
    at::Tensor out = bias_rows(bias, matrix.num_rows);
    addmm_rows(out, own_rows_of_x, weight_self.t());
    at::Tensor means;
    if (projects_first(weight_neighbors)) {
      out = spmm(
          matrix,
          mm_rows(x, weight_neighbors.t()),
          {.row_scale = scale, .col_scale = {}, .root = out, .root_scale = {}}
      );
    } else {
      means = spmm(matrix, x, {.row_scale = scale, .col_scale = {}, .root = {}, .root_scale = {}});
      addmm_rows(out, means, weight_neighbors.t());
    }
    context->save_for_backward(
        {x, weight_self, weight_neighbors, matrix.indptr, matrix.indices, scale, means}
    );
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight_self = saved[1];
    const at::Tensor& weight_neighbors = saved[2];
    const at::Tensor& scale = saved[5];
    const at::Tensor& means = saved[6];
    const Csr matrix{
        .indptr = saved[3],
        .indices = saved[4],
        .num_rows = scale.size(0),
        .num_cols = x.size(0),
    };
    const bool needs_x = context->needs_input_grad(0);
    const at::Tensor gradient = gradients[0].contiguous();

    at::Tensor grad_x;
    at::Tensor grad_neighbors;
    if (projects_first(weight_neighbors)) {
      const at::Tensor projected = spmm(
          transpose(matrix),
          gradient,
          {.row_scale = {}, .col_scale = scale, .root = {}, .root_scale = {}}
      );
      grad_neighbors = mm_over_rows(projected, x);
      if (needs_x) {
        grad_x = mm_rows(projected, weight_neighbors);
        at::Tensor own_rows = grad_x.narrow(0, 0, matrix.num_rows);
        addmm_rows(own_rows, gradient, weight_self);
      }
    } else {
      grad_neighbors = mm_over_rows(gradient, means);
      if (needs_x) {
        // The gradient through weight_self is added as the root, in the same pass.
        grad_x = spmm(
            transpose(matrix),
            mm_rows(gradient, weight_neighbors),
            {.row_scale = {},
             .col_scale = scale,
             .root = mm_rows(gradient, weight_self),
             .root_scale = {}}
        );
      }
    }
    return {
        grad_x,
        mm_over_rows(gradient, x.narrow(0, 0, matrix.num_rows)),
        grad_neighbors,
        gradient.sum(0),
        {},
    };
  }
};

}  // namespace

at::Tensor sage_layer(
    const graph::Block& block,
    const at::Tensor& x,
    const at::Tensor& weight_self,
    const at::Tensor& weight_neighbors,
    const at::Tensor& bias
) {
  TORCH_CHECK(
      x.dim() == 2 && x.size(0) == block.num_sources && x.size(1) == weight_self.size(1),
      "sage_layer: x: expected [",
      block.num_sources,
      ", ",
      weight_self.size(1),
      "], found ",
      x.sizes()
  );
  return SageLayer::apply(x.contiguous(), weight_self, weight_neighbors, bias, to_csr(block));
}

}  // namespace gnn::nn
