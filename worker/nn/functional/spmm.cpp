#include "worker/nn/functional/spmm.h"

#include "worker/nn/cpu/spmm.h"
#include "worker/nn/cuda/spmm.h"

#include <c10/util/Exception.h>

#include <string_view>

namespace gnn::nn {
namespace {

void check_scale(
    const at::Tensor& scale, int64_t size, const at::Tensor& x, std::string_view name
) {
  if (!scale.defined()) return;
  TORCH_CHECK(
      scale.dim() == 1 && scale.numel() == size && scale.is_contiguous() &&
          scale.scalar_type() == spmm_scale_type(x.scalar_type()) && scale.device() == x.device(),
      "spmm: ",
      name,
      ": expected contiguous ",
      spmm_scale_type(x.scalar_type()),
      " [",
      size,
      "] on ",
      x.device(),
      ", found ",
      scale.scalar_type(),
      " ",
      scale.sizes(),
      " on ",
      scale.device()
  );
}

void check_rows(const at::Tensor& rows, std::string_view name) {
  TORCH_CHECK(
      rows.dim() == 2 && (rows.size(1) <= 1 || rows.stride(1) == 1),
      "spmm: ",
      name,
      ": expected a matrix whose rows are contiguous, found sizes ",
      rows.sizes(),
      " and strides ",
      rows.strides()
  );
}

void check_own_columns(const at::Tensor& columns, const Csr& matrix) {
  if (!columns.defined()) return;
  TORCH_CHECK(
      columns.dim() == 1 && columns.numel() == matrix.num_rows && columns.is_contiguous() &&
          columns.scalar_type() == at::kLong && columns.device() == matrix.indptr.device(),
      "spmm: own_columns: expected contiguous int64 [",
      matrix.num_rows,
      "] on ",
      matrix.indptr.device(),
      ", found ",
      columns.scalar_type(),
      " ",
      columns.sizes(),
      " on ",
      columns.device()
  );
}

void check(const Csr& matrix, const at::Tensor& x, const SpmmOptions& options) {
  check_rows(x, "x");
  TORCH_CHECK(
      x.size(0) == matrix.num_cols && x.device() == matrix.indptr.device(),
      "spmm: x: expected [",
      matrix.num_cols,
      ", F] on ",
      matrix.indptr.device(),
      ", found ",
      x.sizes(),
      " on ",
      x.device()
  );
  check_scale(options.row_scale, matrix.num_rows, x, "row_scale");
  check_scale(options.col_scale, matrix.num_cols, x, "col_scale");
  check_own_columns(options.own_columns, matrix);
  const at::ScalarType result = options.result.value_or(x.scalar_type());
  TORCH_CHECK(
      result == x.scalar_type() || (x.scalar_type() == at::kBFloat16 && result == at::kFloat),
      "spmm: result: expected the type of x, ",
      x.scalar_type(),
      ", or float32 for bfloat16, found ",
      result
  );
  if (!options.root.defined()) return;
  check_rows(options.root, "root");
  TORCH_CHECK(
      options.root.size(0) <= matrix.num_rows && options.root.size(1) == x.size(1) &&
          options.root.scalar_type() == result && options.root.device() == x.device(),
      "spmm: root: expected at most ",
      matrix.num_rows,
      " rows as wide as those of x ",
      x.sizes(),
      " of type ",
      result,
      ", found ",
      options.root.scalar_type(),
      " ",
      options.root.sizes()
  );
  check_scale(options.root_scale, options.root.size(0), x, "root_scale");
}

}  // namespace

at::ScalarType spmm_scale_type(at::ScalarType x) {
  TORCH_CHECK(
      x == at::kFloat || x == at::kDouble || x == at::kBFloat16,
      "spmm: expected float32, float64 or bfloat16, found ",
      x
  );
  return x == at::kBFloat16 ? at::kFloat : x;
}

at::Tensor spmm(const Csr& matrix, const at::Tensor& x, const SpmmOptions& options) {
  check(matrix, x, options);
  return x.is_cpu() ? cpu::spmm(matrix, x, options) : cuda::spmm(matrix, x, options);
}

}  // namespace gnn::nn
