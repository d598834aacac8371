#include "worker/nn/functional/sage_layer.h"

#include "worker/nn/functional/csr.h"
#include "worker/nn/functional/linear_aggregate.h"
#include "worker/nn/functional/matmul.h"
#include "worker/nn/functional/spmm.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>

namespace gnn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool projects_first(const at::Tensor& weight) {
  return weight.size(0) < weight.size(1);
}

struct SageForward {
  at::Tensor out;
  at::Tensor means;  // of the sources' rows; undefined if they were projected first
};

// Result of type `result`, which may be float32 for inputs of bfloat16. Weights are operands, of the
// type of the inputs.
SageForward run_forward(
    const Csr& matrix,
    const at::Tensor& scale,
    const SageInputs& x,
    const SageWeights& weights,
    at::ScalarType result
) {
  const Product own{.x = x.destinations, .w = weights.self.t()};
  if (projects_first(weights.neighbors)) {
    const at::Tensor root = sum_of_products(weights.bias, std::array<Product, 1>{own}, result);
    const at::Tensor projected = mm_rows(x.sources, weights.neighbors.t());
    SpmmOptions options{.row_scale = scale, .col_scale = {}, .root = root, .root_scale = {}};
    options.result = result;
    return {.out = spmm(matrix, projected, options), .means = {}};
  }
  const at::Tensor means =
      spmm(matrix, x.sources, {.row_scale = scale, .col_scale = {}, .root = {}, .root_scale = {}});
  const std::array<Product, 2> products{own, Product{.x = means, .w = weights.neighbors.t()}};
  return {.out = sum_of_products(weights.bias, products, result), .means = means};
}

// What row i of `gradient` gives each source of destination i's edges; `root` is added to the first
// rows of the result, unless undefined.
at::Tensor sum_to_sources(
    const Csr& matrix, const at::Tensor& scale, const at::Tensor& gradient, const at::Tensor& root
) {
  return spmm(
      transpose(matrix),
      gradient,
      {.row_scale = {}, .col_scale = scale, .root = root, .root_scale = {}}
  );
}

class SageLayer : public torch::autograd::Function<SageLayer> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight_self,
      const at::Tensor& weight_neighbors,
      const at::Tensor& bias,
      const Csr& matrix,
      at::ScalarType result
  ) {
    const at::Tensor scale = inverse_row_sizes(matrix, x.scalar_type());
    const at::Tensor self = operand_like(x, weight_self);
    const at::Tensor neighbors = operand_like(x, weight_neighbors);
    const auto [out, means] = run_forward(
        matrix,
        scale,
        {.sources = x, .destinations = x.narrow(0, 0, matrix.num_rows)},
        {.self = self, .neighbors = neighbors, .bias = bias},
        result
    );
    context->save_for_backward({x, self, neighbors, matrix.indptr, matrix.indices, scale, means});
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
    const at::Tensor gradient = gradients[0].to(x.scalar_type()).contiguous();
    const at::Tensor destinations = x.narrow(0, 0, matrix.num_rows);

    at::Tensor grad_x;
    at::Tensor grad_neighbors;
    LinearGradients own;
    if (projects_first(weight_neighbors)) {
      own = linear_gradients(gradient, std::array<at::Tensor, 1>{destinations});
      const at::Tensor projected = sum_to_sources(matrix, scale, gradient, {});
      grad_neighbors = mm_over_rows(projected, x);
      if (needs_x) {
        grad_x = mm_rows(projected, weight_neighbors);
        at::Tensor own_rows = grad_x.narrow(0, 0, matrix.num_rows);
        addmm_rows(own_rows, gradient, weight_self);
      }
    } else {
      own = linear_gradients(gradient, std::array<at::Tensor, 2>{destinations, means});
      grad_neighbors = own.weights[1];
      if (needs_x) {
        // The gradient through weight_self is added as the root, in the same pass.
        grad_x = sum_to_sources(
            matrix, scale, mm_rows(gradient, weight_neighbors), mm_rows(gradient, weight_self)
        );
      }
    }
    return {grad_x, own.weights[0], grad_neighbors, own.bias, {}, {}};
  }
};

class SageLayerBetween : public torch::autograd::Function<SageLayerBetween> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& sources,
      const at::Tensor& destinations,
      const at::Tensor& weight_self,
      const at::Tensor& weight_neighbors,
      const at::Tensor& bias,
      const Csr& matrix
  ) {
    const at::Tensor scale = inverse_row_sizes(matrix, sources.scalar_type());
    const at::Tensor self = operand_like(sources, weight_self);
    const at::Tensor neighbors = operand_like(sources, weight_neighbors);
    const auto [out, means] = run_forward(
        matrix,
        scale,
        {.sources = sources, .destinations = destinations},
        {.self = self, .neighbors = neighbors, .bias = bias},
        sources.scalar_type()
    );
    context->save_for_backward(
        {sources, destinations, self, neighbors, matrix.indptr, matrix.indices, scale, means}
    );
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& sources = saved[0];
    const at::Tensor& destinations = saved[1];
    const at::Tensor& weight_self = saved[2];
    const at::Tensor& weight_neighbors = saved[3];
    const at::Tensor& scale = saved[6];
    const at::Tensor& means = saved[7];
    const Csr matrix{
        .indptr = saved[4],
        .indices = saved[5],
        .num_rows = destinations.size(0),
        .num_cols = sources.size(0),
    };
    const bool needs_sources = context->needs_input_grad(0);
    const at::Tensor gradient = gradients[0].contiguous();

    at::Tensor grad_sources;
    at::Tensor grad_neighbors;
    const LinearGradients own = linear_gradients(gradient, std::array<at::Tensor, 1>{destinations});
    if (projects_first(weight_neighbors)) {
      const at::Tensor projected = sum_to_sources(matrix, scale, gradient, {});
      grad_neighbors = mm_over_rows(projected, sources);
      if (needs_sources) grad_sources = mm_rows(projected, weight_neighbors);
    } else {
      grad_neighbors = mm_over_rows(gradient, means);
      if (needs_sources)
        grad_sources = sum_to_sources(matrix, scale, mm_rows(gradient, weight_neighbors), {});
    }
    at::Tensor grad_destinations;
    if (context->needs_input_grad(1)) grad_destinations = mm_rows(gradient, weight_self);
    return {
        grad_sources,
        grad_destinations,
        own.weights[0],
        grad_neighbors,
        own.bias,
        {},
    };
  }
};

void check_sage_input(
    const at::Tensor& x, int64_t rows, const at::Tensor& weight, const char* name
) {
  TORCH_CHECK(
      x.dim() == 2 && x.size(0) == rows && x.size(1) == weight.size(1),
      "sage_layer: ",
      name,
      ": expected [",
      rows,
      ", ",
      weight.size(1),
      "], found ",
      x.sizes()
  );
}

}  // namespace

at::Tensor sage_layer(
    const graph::Block& block,
    const at::Tensor& x,
    const at::Tensor& weight_self,
    const at::Tensor& weight_neighbors,
    const at::Tensor& bias,
    std::optional<at::ScalarType> result
) {
  check_sage_input(x, block.num_sources, weight_self, "x");
  return SageLayer::apply(
      x.contiguous(),
      weight_self,
      weight_neighbors,
      bias,
      to_csr(block),
      result.value_or(x.scalar_type())
  );
}

at::Tensor sage_layer_between(
    const graph::Block& block, const SageInputs& x, const SageWeights& weights
) {
  check_sage_input(x.sources, block.num_sources, weights.neighbors, "x of the sources");
  check_sage_input(x.destinations, block.num_destinations, weights.self, "x of the destinations");
  return SageLayerBetween::apply(
      x.sources.contiguous(),
      x.destinations.contiguous(),
      weights.self,
      weights.neighbors,
      weights.bias,
      to_csr_between(block)
  );
}

}  // namespace gnn::nn
