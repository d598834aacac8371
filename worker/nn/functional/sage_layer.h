#pragma once

#include "worker/graph/block.h"

#include <ATen/core/Tensor.h>

namespace gnn::nn {

/// x_dst W_self^T + mean(x over in-edges) W_neighbors^T + bias as one differentiable step: nothing
/// is stored but what backward reads, and each gradient is written once. Projects before it
/// aggregates where that gathers fewer numbers. Shapes: x [num_src, in]; weights [out, in]; bias
/// [out]; result [num_dst, out].
at::Tensor sage_layer(
    const graph::Block& block,
    const at::Tensor& x,
    const at::Tensor& weight_self,
    const at::Tensor& weight_neighbors,
    const at::Tensor& bias
);

}  // namespace gnn::nn
