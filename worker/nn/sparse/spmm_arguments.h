#pragma once

#include "worker/nn/sparse/csr.h"
#include "worker/nn/sparse/spmm_options.h"

#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>

#include <cstdint>

namespace gnn::nn {

/// The type of the sums and scales for elements of type T.
template <class T>
struct ScaleOf {
  using Type = T;
};
template <>
struct ScaleOf<c10::BFloat16> {
  using Type = float;
};

/// The operands of spmm as plain memory; null leaves a part out (see SpmmOptions). Root and result
/// have elements of type R.
template <class T, class I, class R>
struct SpmmArguments {
  using Scale = typename ScaleOf<T>::Type;
  const int64_t* indptr = nullptr;
  const I* indices = nullptr;
  const T* x = nullptr;
  int64_t x_stride = 0;
  R* out = nullptr;
  int64_t out_stride = 0;
  const Scale* row_scale = nullptr;
  const Scale* col_scale = nullptr;
  const R* root = nullptr;
  int64_t root_stride = 0;
  const Scale* root_scale = nullptr;
  int64_t num_roots = 0;
  int64_t num_rows = 0;
  int64_t num_columns = 0;  ///< of x and out: F
  bool skip_loops = false;
  const int64_t* own_columns = nullptr;
};

template <class T>
const T* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<const T*>(tensor.const_data_ptr()) : nullptr;
}

template <class T, class I, class R>
SpmmArguments<T, I, R> spmm_arguments(
    const Csr& matrix, const at::Tensor& x, const SpmmOptions& options, const at::Tensor& out
) {
  using Scale = typename ScaleOf<T>::Type;
  const bool has_root = options.root.defined();
  return {
      .indptr = matrix.indptr.const_data_ptr<int64_t>(),
      .indices = matrix.indices.const_data_ptr<I>(),
      .x = static_cast<const T*>(x.const_data_ptr()),
      .x_stride = x.stride(0),
      .out = static_cast<R*>(out.mutable_data_ptr()),
      .out_stride = out.stride(0),
      .row_scale = data_or_null<Scale>(options.row_scale),
      .col_scale = data_or_null<Scale>(options.col_scale),
      .root = data_or_null<R>(options.root),
      .root_stride = has_root ? options.root.stride(0) : 0,
      .root_scale = data_or_null<Scale>(options.root_scale),
      .num_roots = has_root ? options.root.size(0) : 0,
      .num_rows = matrix.num_rows,
      .num_columns = x.size(1),
      .skip_loops = options.skip_loops,
      .own_columns = data_or_null<int64_t>(options.own_columns),
  };
}

/// Calls run(SpmmArguments<T, I, R>) with the types that x, matrix.indices and out have.
/// Errors: c10::Error unless x is float32, float64 or bfloat16.
/// Precondition: out is of the type of x, or float32 if x is bfloat16.
template <class Run>
void with_spmm_arguments(
    const Csr& matrix,
    const at::Tensor& x,
    const SpmmOptions& options,
    const at::Tensor& out,
    const Run& run
) {
  const auto with_elements = [&](auto of_x, auto of_result) {
    using T = decltype(of_x);
    using R = decltype(of_result);
    if (matrix.indices.scalar_type() == at::kInt) {
      run(spmm_arguments<T, int32_t, R>(matrix, x, options, out));
    } else {
      run(spmm_arguments<T, int64_t, R>(matrix, x, options, out));
    }
  };
  switch (x.scalar_type()) {
    case at::kFloat:
      return with_elements(float{}, float{});
    case at::kDouble:
      return with_elements(double{}, double{});
    case at::kBFloat16:
      if (out.scalar_type() == at::kFloat) return with_elements(c10::BFloat16{}, float{});
      return with_elements(c10::BFloat16{}, c10::BFloat16{});
    default:
      TORCH_CHECK(false, "spmm: expected float32, float64 or bfloat16, found ", x.scalar_type());
  }
}

}  // namespace gnn::nn
