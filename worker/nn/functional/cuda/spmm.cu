#include "worker/nn/functional/cuda/spmm.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>

namespace gnn::nn::cuda {
namespace {

template <class T>
struct ScaleOf {
  using Type = T;
};
template <>
struct ScaleOf<c10::BFloat16> {
  using Type = float;
};

// Null leaves a part out, as in cpu::SpmmArguments.
template <class T, class I>
struct Arguments {
  using Scale = typename ScaleOf<T>::Type;
  const int64_t* indptr;
  const I* indices;
  const T* x;
  int64_t x_stride;
  T* out;
  const Scale* row_scale;
  const Scale* col_scale;
  const T* root;
  int64_t root_stride;
  const Scale* root_scale;
  int64_t num_roots;
  int64_t num_rows;
  int64_t num_columns;
  bool skip_loops;
};

constexpr int kWarp = 32;
constexpr int kWarpsPerBlock = 8;

// A warp takes a row, its lanes neighbouring columns, so that reads of x coalesce. Each element is
// summed by one thread in the order of the entries: no atomics, and the same bits at every launch.
template <class T, class I>
__global__ void spmm_kernel(const Arguments<T, I> a) {
  using Scale = typename ScaleOf<T>::Type;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * kWarpsPerBlock;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.y;
       row < a.num_rows;
       row += warps) {
    const int64_t begin = a.indptr[row];
    const int64_t end = a.indptr[row + 1];
    for (int64_t column = threadIdx.x; column < a.num_columns; column += kWarp) {
      Scale sum = 0;
      for (int64_t entry = begin; entry < end; ++entry) {
        const int64_t source = a.indices[entry];
        if (a.skip_loops && source == row) continue;
        Scale value = static_cast<Scale>(a.x[source * a.x_stride + column]);
        if (a.col_scale != nullptr) value *= a.col_scale[source];
        sum += value;
      }
      if (a.row_scale != nullptr) sum *= a.row_scale[row];
      if (a.root != nullptr && row < a.num_roots) {
        Scale value = static_cast<Scale>(a.root[row * a.root_stride + column]);
        if (a.root_scale != nullptr) value *= a.root_scale[row];
        sum += value;
      }
      a.out[row * a.num_columns + column] = static_cast<T>(sum);
    }
  }
}

template <class T>
const T* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<const T*>(tensor.const_data_ptr()) : nullptr;
}

template <class T, class I>
void launch(const Csr& matrix, const at::Tensor& x, const SpmmOptions& options, at::Tensor& out) {
  using Scale = typename ScaleOf<T>::Type;
  const bool has_root = options.root.defined();
  const Arguments<T, I> arguments{
      matrix.indptr.const_data_ptr<int64_t>(),
      matrix.indices.const_data_ptr<I>(),
      static_cast<const T*>(x.const_data_ptr()),
      x.stride(0),
      static_cast<T*>(out.mutable_data_ptr()),
      data_or_null<Scale>(options.row_scale),
      data_or_null<Scale>(options.col_scale),
      data_or_null<T>(options.root),
      has_root ? options.root.stride(0) : 0,
      data_or_null<Scale>(options.root_scale),
      has_root ? options.root.size(0) : 0,
      matrix.num_rows,
      x.size(1),
      options.skip_loops,
  };
  const int64_t wanted = (matrix.num_rows + kWarpsPerBlock - 1) / kWarpsPerBlock;
  const int64_t most = int64_t{64} * at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const dim3 threads(kWarp, kWarpsPerBlock);
  spmm_kernel<T, I>
      <<<static_cast<unsigned>(std::min(wanted, most)),
         threads,
         0,
         at::cuda::getCurrentCUDAStream()>>>(arguments);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <class T>
void launch(const Csr& matrix, const at::Tensor& x, const SpmmOptions& options, at::Tensor& out) {
  if (matrix.indices.scalar_type() == at::kInt) {
    launch<T, int32_t>(matrix, x, options, out);
  } else {
    launch<T, int64_t>(matrix, x, options, out);
  }
}

}  // namespace

at::Tensor spmm(const Csr& matrix, const at::Tensor& x, const SpmmOptions& options) {
  TORCH_CHECK(
      x.is_cuda(), "spmm: expected tensors on the CPU or a CUDA device, found ", x.device()
  );
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor out = at::empty({matrix.num_rows, x.size(1)}, x.options());
  if (out.numel() == 0) return out;
  switch (x.scalar_type()) {
    case at::kFloat:
      launch<float>(matrix, x, options, out);
      break;
    case at::kDouble:
      launch<double>(matrix, x, options, out);
      break;
    case at::kBFloat16:
      launch<c10::BFloat16>(matrix, x, options, out);
      break;
    default:
      TORCH_CHECK(false, "spmm: expected float32, float64 or bfloat16, found ", x.scalar_type());
  }
  return out;
}

}  // namespace gnn::nn::cuda
