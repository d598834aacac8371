#pragma once

#include "worker/nn/sparse/csr.h"
#include "worker/nn/sparse/spmm_options.h"

#include <ATen/core/Tensor.h>

namespace gnn::nn::cuda {

/// nn::spmm for tensors on a GPU, whose shapes and types it has checked. Runs on the current
/// stream.
/// Errors: c10::Error in a build without CUDA kernels, or unless x is float32, float64 or bfloat16.
[[nodiscard]] at::Tensor spmm(const Csr& matrix, const at::Tensor& x, const SpmmOptions& options);

}  // namespace gnn::nn::cuda
