#include "worker/nn/cuda/spmm.h"
#include "worker/nn/sparse/spmm_arguments.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>

namespace gnn::nn::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kWarpsPerBlock = 8;

// A warp takes a row, its lanes neighbouring columns, so that reads of x coalesce. Each element is
// summed by one thread in the order of the entries: no atomics, and the same bits at every launch.
template <class T, class I>
__global__ void spmm_kernel(const SpmmArguments<T, I> a) {
  using Scale = typename ScaleOf<T>::Type;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * kWarpsPerBlock;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.y;
       row < a.num_rows;
       row += warps) {
    const int64_t begin = a.indptr[row];
    const int64_t end = a.indptr[row + 1];
    const int64_t own_column = a.own_columns != nullptr ? a.own_columns[row] : row;
    for (int64_t column = threadIdx.x; column < a.num_columns; column += kWarp) {
      Scale sum = 0;
      for (int64_t entry = begin; entry < end; ++entry) {
        const int64_t source = a.indices[entry];
        if (a.skip_loops && source == own_column) continue;
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
      a.out[row * a.out_stride + column] = static_cast<T>(sum);
    }
  }
}

template <class T, class I>
void launch(const SpmmArguments<T, I>& arguments) {
  const int64_t wanted = (arguments.num_rows + kWarpsPerBlock - 1) / kWarpsPerBlock;
  const int64_t most = int64_t{64} * at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const dim3 threads(kWarp, kWarpsPerBlock);
  spmm_kernel<T, I>
      <<<static_cast<unsigned>(std::min(wanted, most)),
         threads,
         0,
         at::cuda::getCurrentCUDAStream()>>>(arguments);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

at::Tensor spmm(const Csr& matrix, const at::Tensor& x, const SpmmOptions& options) {
  TORCH_CHECK(
      x.is_cuda(), "spmm: expected tensors on the CPU or a CUDA device, found ", x.device()
  );
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor out = at::empty({matrix.num_rows, x.size(1)}, x.options());
  if (out.numel() == 0) return out;
  with_spmm_arguments(matrix, x, options, out, [](const auto& arguments) { launch(arguments); });
  return out;
}

}  // namespace gnn::nn::cuda
