#include "worker/gpu/device_stream.cuh"
#include "worker/nn/cuda/spmm.h"
#include "worker/nn/cuda/spmm_rows.h"
#include "worker/nn/sparse/spmm_arguments.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include <cstdint>

namespace gnn::nn::cuda {
namespace {

constexpr int kThreads = 256;

template <class T, class I, class R>
void launch(const SpmmArguments<T, I, R>& arguments) {
  const int64_t most = int64_t{64} * at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  gpu::DeviceStream stream(at::cuda::getCurrentCUDAStream());
  stream.launch(
      SpmmRows<T, I, R>{arguments},
      gpu::shape_for(arguments.num_rows * gpu::kWarpThreads, kThreads, most)
  );
  gpu::LaunchShape shape = gpu::shape_for(arguments.num_rows, kThreads, most);
  shape.shared_bytes = long_rows_bytes<T>(kThreads);
  stream.launch(SpmmLongRows<T, I, R>{arguments}, shape);
}

}  // namespace

at::Tensor spmm(const Csr& matrix, const at::Tensor& x, const SpmmOptions& options) {
  TORCH_CHECK(
      x.is_cuda(), "spmm: expected tensors on the CPU or a CUDA device, found ", x.device()
  );
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor out = at::empty(
      {matrix.num_rows, x.size(1)}, x.options().dtype(options.result.value_or(x.scalar_type()))
  );
  if (out.numel() == 0) return out;
  try {
    with_spmm_arguments(matrix, x, options, out, [](const auto& arguments) { launch(arguments); });
  } catch (const gpu::CudaFailure& failure) {
    TORCH_CHECK(false, "spmm: ", failure.what());
  }
  return out;
}

}  // namespace gnn::nn::cuda
