#pragma once

#include "worker/graph/block.h"

#include <ATen/core/Tensor.h>

#include <optional>

namespace gnn::nn {

/// x_i W_self^T + (mean of x_j over i's in-edges) W_neighbors^T + bias, for each destination i, as
/// one differentiable step: it keeps only what backward reads and writes each gradient once.
/// Projects first where that gathers fewer numbers.
/// Shapes: x [num_sources, in]; weights [out, in]; bias [out]; result [num_destinations, out]. All of
/// one type, but a bfloat16 x takes float32 parameters, which get float32 gradients, and gives float32
/// if `result` says so.
at::Tensor sage_layer(
    const graph::Block& block,
    const at::Tensor& x,
    const at::Tensor& weight_self,
    const at::Tensor& weight_neighbors,
    const at::Tensor& bias,
    std::optional<at::ScalarType> result = {}
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
/// Shapes: as said above; result [num_destinations, out], of the type of x.
at::Tensor sage_layer_between(
    const graph::Block& block, const SageInputs& x, const SageWeights& weights
);

}  // namespace gnn::nn
