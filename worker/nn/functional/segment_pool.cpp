#include "worker/nn/functional/segment_pool.h"

#include "worker/nn/functional/csr.h"
#include "worker/nn/functional/linear_aggregate.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/full.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

namespace gnn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class SegmentMax : public torch::autograd::Function<SegmentMax> {
 public:
  static at::Tensor forward(
      AutogradContext* context, const at::Tensor& x, const at::Tensor& offsets
  ) {
    const int64_t num_segments = offsets.size(0) - 1;
    const at::Tensor sizes = at::diff(offsets);
    const at::Tensor segments =
        at::repeat_interleave(at::arange(num_segments, offsets.options()), sizes);
    const at::Tensor index = segments.unsqueeze(1).expand_as(x);
    at::Tensor out =
        at::full({num_segments, x.size(1)}, -std::numeric_limits<double>::infinity(), x.options());
    out.scatter_reduce_(0, index, x, "amax");
    // The first row of each segment with the maximum; x.size(0), one past the last row, if the
    // segment is empty or has only NaNs.
    const at::Tensor rows = at::arange(x.size(0), offsets.options()).unsqueeze(1).expand_as(x);
    at::Tensor first = at::full({num_segments, x.size(1)}, x.size(0), offsets.options());
    first.scatter_reduce_(
        0, index, at::where(x.eq(out.index_select(0, segments)), rows, x.size(0)), "amin"
    );
    context->save_for_backward({first});
    context->saved_data["num_nodes"] = x.size(0);
    return out.masked_fill_(sizes.eq(0).unsqueeze(1), 0);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor first = context->get_saved_variables()[0];
    const int64_t num_nodes = context->saved_data["num_nodes"].toInt();
    at::Tensor result = at::zeros({num_nodes + 1, first.size(1)}, gradients[0].options());
    result.scatter_(0, first, gradients[0]);
    return {result.narrow(0, 0, num_nodes), {}};
  }
};

}  // namespace

at::Tensor segment_pool(const at::Tensor& x, const at::Tensor& offsets, Pooling pooling) {
  TORCH_CHECK(x.dim() == 2, "segment_pool: x: expected a matrix, found ", x.sizes());
  // A segment is the in-neighbour list of one destination.
  const Csr matrix = to_csr_of_segments(offsets, x.size(0));
  switch (pooling) {
    case Pooling::Sum:
      return linear_aggregate(matrix, x.contiguous(), {});
    case Pooling::Mean:
      return linear_aggregate(
          matrix,
          x.contiguous(),
          {.row_scale = inverse_row_sizes(matrix, x.scalar_type()),
           .col_scale = {},
           .self_scale = {}}
      );
    case Pooling::Max:
      return SegmentMax::apply(x, offsets);
  }
  TORCH_CHECK(false, "segment_pool: unknown pooling");
}

}  // namespace gnn::nn
