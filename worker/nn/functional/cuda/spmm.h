#pragma once

#include "worker/nn/functional/spmm.h"

#include <ATen/core/Tensor.h>

namespace gnn::nn::cuda {

/// spmm for tensors on a GPU, on the current stream. In a build without our kernels it throws
/// c10::Error.
[[nodiscard]] at::Tensor spmm(const Csr& matrix, const at::Tensor& x, const SpmmOptions& options);

}  // namespace gnn::nn::cuda
