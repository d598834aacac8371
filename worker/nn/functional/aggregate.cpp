#include "worker/nn/functional/aggregate.h"

#include "worker/nn/functional/csr.h"
#include "worker/nn/functional/linear_aggregate.h"
#include "worker/nn/functional/spmm.h"

#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>

namespace gnn::nn {

at::Tensor gcn_norm(const at::Tensor& degrees_without_loops, at::ScalarType x) {
  return degrees_without_loops.to(spmm_scale_type(x)).add_(1).rsqrt_();
}

at::Tensor aggregate(
    const graph::Block& block,
    const at::Tensor& x,
    Aggregation aggregation,
    std::optional<at::ScalarType> result
) {
  const Csr matrix = to_csr(block);
  AggregateWeights weights;
  weights.result = result;
  switch (aggregation) {
    case Aggregation::Sum:
      break;
    case Aggregation::Mean:
      weights.row_scale = inverse_row_sizes(matrix, x.scalar_type());
      break;
  }
  return linear_aggregate(matrix, x, weights);
}

at::Tensor gcn_aggregate(
    const graph::Block& block,
    const at::Tensor& x,
    const at::Tensor& source_degrees,
    std::optional<at::ScalarType> result
) {
  TORCH_CHECK(
      source_degrees.dim() == 1 && source_degrees.size(0) == block.num_sources &&
          source_degrees.scalar_type() == at::kLong,
      "gcn_aggregate: source_degrees: expected int64 [",
      block.num_sources,
      "], found ",
      source_degrees.scalar_type(),
      " ",
      source_degrees.sizes()
  );
  const Csr matrix = to_csr(block);
  const at::Tensor rows = gcn_norm(in_degrees_without_loops(block), x.scalar_type());
  const at::Tensor cols = gcn_norm(source_degrees, x.scalar_type());
  return linear_aggregate(
      matrix,
      x,
      {
          .row_scale = rows,
          .col_scale = cols,
          .self_scale = rows * cols.narrow(0, 0, block.num_destinations),
          .skip_loops = true,
          .result = result,
      }
  );
}

}  // namespace gnn::nn
