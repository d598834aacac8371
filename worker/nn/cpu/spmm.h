#pragma once

#include "worker/nn/sparse/csr.h"
#include "worker/nn/sparse/spmm_options.h"

#include <ATen/core/Tensor.h>

namespace gnn::nn::cpu {

/// nn::spmm for tensors on the CPU, whose shapes and types it has checked. Rows run in parallel
/// (at::parallel_for); the bits do not depend on the number of threads.
/// Errors: c10::Error unless x is float32, float64 or bfloat16.
[[nodiscard]] at::Tensor spmm(const Csr& matrix, const at::Tensor& x, const SpmmOptions& options);

}  // namespace gnn::nn::cpu
