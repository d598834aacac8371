#pragma once

#include "worker/graph/block.h"

#include <ATen/core/Tensor.h>

namespace gnn::nn {

/// x_i W_self^T + (mean of x_j over i's in-edges) W_neighbors^T + bias, for each destination i, as
/// one differentiable step: it keeps only what backward reads and writes each gradient once.
/// Projects first where that gathers fewer numbers.
/// Shapes: x [num_sources, in]; weights [out, in]; bias [out]; result [num_destinations, out].
at::Tensor sage_layer(
    const graph::Block& block,
    const at::Tensor& x,
    const at::Tensor& weight_self,
    const at::Tensor& weight_neighbors,
    const at::Tensor& bias
);

}  // namespace gnn::nn
