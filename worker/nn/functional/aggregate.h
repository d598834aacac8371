#pragma once

#include "worker/graph/block.h"

#include <ATen/core/Tensor.h>

namespace gnn::nn {

enum class Aggregation { Sum, Mean };

/// Reduces the rows of x over each destination's in-edges; a destination without any gets 0.
/// Differentiable in x.
/// Shapes: x float32, float64 or bfloat16 [num_sources, F]; result [num_destinations, F].
at::Tensor aggregate(const graph::Block& block, const at::Tensor& x, Aggregation aggregation);

/// D^-1/2 (A + I) D^-1/2 x with one self-loop per node. Differentiable in x.
/// Shapes: as aggregate; source_degrees int64 [num_sources], in-edges without self-loops.
at::Tensor gcn_aggregate(
    const graph::Block& block, const at::Tensor& x, const at::Tensor& source_degrees
);

}  // namespace gnn::nn
