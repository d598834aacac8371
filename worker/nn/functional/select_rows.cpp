#include "worker/nn/functional/select_rows.h"

#include "worker/nn/cpu/index_checks.h"
#include "worker/nn/functional/linear_aggregate.h"
#include "worker/nn/sparse/csr.h"

#include <ATen/ops/arange.h>
#include <c10/util/Exception.h>

namespace gnn::nn {

at::Tensor select_rows(const at::Tensor& x, const at::Tensor& rows) {
  TORCH_CHECK(
      x.dim() == 2 && rows.dim() == 1 && rows.scalar_type() == at::kLong && rows.is_contiguous() &&
          rows.device() == x.device(),
      "select_rows: expected a matrix and contiguous int64 rows on ",
      x.device(),
      ", found ",
      x.sizes(),
      " and ",
      rows.scalar_type(),
      " ",
      rows.sizes(),
      " on ",
      rows.device()
  );
  const int64_t count = rows.numel();
  if (rows.is_cpu()) {
    const auto* data = rows.const_data_ptr<int64_t>();
    const int64_t outside = cpu::first_outside<int64_t>(data, count, x.size(0));
    TORCH_CHECK(
        outside < 0,
        "select_rows: rows[",
        outside,
        "]: expected in [0, ",
        x.size(0),
        "), found ",
        outside < 0 ? 0 : data[outside]
    );
  }
  // The matrix with one entry a row: backward sums over its transposed.
  const Csr matrix{
      .indptr = at::arange(count + 1, rows.options()),
      .indices = rows,
      .num_rows = count,
      .num_cols = x.size(0),
  };
  return linear_aggregate(matrix, x, {});
}

}  // namespace gnn::nn
