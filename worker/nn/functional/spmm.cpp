#include "worker/nn/functional/spmm.h"

#include "worker/nn/functional/cpu/kernels.h"
#include "worker/nn/functional/cuda/spmm.h"

#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>
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
  if (!options.root.defined()) return;
  check_rows(options.root, "root");
  TORCH_CHECK(
      options.root.size(0) <= matrix.num_rows && options.root.size(1) == x.size(1) &&
          options.root.scalar_type() == x.scalar_type() && options.root.device() == x.device(),
      "spmm: root: expected at most ",
      matrix.num_rows,
      " rows like those of x ",
      x.sizes(),
      ", found ",
      options.root.sizes()
  );
  check_scale(options.root_scale, options.root.size(0), x, "root_scale");
}

template <class T>
const T* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<const T*>(tensor.const_data_ptr()) : nullptr;
}

template <class T, class I>
void run_on_cpu(
    const Csr& matrix, const at::Tensor& x, const SpmmOptions& options, at::Tensor& out
) {
  using Scale = typename cpu::ScaleOf<T>::Type;
  const bool has_root = options.root.defined();
  cpu::spmm<T, I>({
      .indptr = matrix.indptr.const_data_ptr<int64_t>(),
      .indices = matrix.indices.const_data_ptr<I>(),
      .x = static_cast<const T*>(x.const_data_ptr()),
      .x_stride = x.stride(0),
      .out = static_cast<T*>(out.mutable_data_ptr()),
      .out_stride = out.stride(0),
      .row_scale = data_or_null<Scale>(options.row_scale),
      .col_scale = data_or_null<Scale>(options.col_scale),
      .root = data_or_null<T>(options.root),
      .root_stride = has_root ? options.root.stride(0) : 0,
      .root_scale = data_or_null<Scale>(options.root_scale),
      .num_roots = has_root ? options.root.size(0) : 0,
      .num_rows = matrix.num_rows,
      .num_columns = x.size(1),
      .skip_loops = options.skip_loops,
  });
}

template <class T>
void run_on_cpu(
    const Csr& matrix, const at::Tensor& x, const SpmmOptions& options, at::Tensor& out
) {
  if (matrix.indices.scalar_type() == at::kInt) {
    run_on_cpu<T, int32_t>(matrix, x, options, out);
  } else {
    run_on_cpu<T, int64_t>(matrix, x, options, out);
  }
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
  if (!x.is_cpu()) return cuda::spmm(matrix, x, options);
  at::Tensor out = at::empty({matrix.num_rows, x.size(1)}, x.options());
  switch (spmm_scale_type(x.scalar_type())) {
    case at::kDouble:
      run_on_cpu<double>(matrix, x, options, out);
      break;
    default:
      if (x.scalar_type() == at::kFloat) {
        run_on_cpu<float>(matrix, x, options, out);
      } else {
        run_on_cpu<cpu::BFloat16>(matrix, x, options, out);
      }
  }
  return out;
}

}  // namespace gnn::nn
