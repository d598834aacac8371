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

struct SageInputs {
  const at::Tensor& sources;       ///< [num_sources, in]
  const at::Tensor& destinations;  ///< [num_destinations, in of weights.self]
};

struct SageWeights {
  const at::Tensor& self;       ///< [out, in of the destinations]
  const at::Tensor& neighbors;  ///< [out, in of the sources]
  const at::Tensor& bias;       ///< [out]
};

/// sage_layer() between two lists of nodes: x_i is row i of x.destinations, x_j row j of x.sources.
/// Shapes: as said above; result [num_destinations, out].
at::Tensor sage_layer_between(
    const graph::Block& block, const SageInputs& x, const SageWeights& weights
);

}  // namespace gnn::nn
