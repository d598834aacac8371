#pragma once

#include "worker/nn/sparse/csr.h"

namespace gnn::nn::cpu {

/// nn::transpose for tensors on the CPU.
[[nodiscard]] Csr transpose(const Csr& matrix);

}  // namespace gnn::nn::cpu
