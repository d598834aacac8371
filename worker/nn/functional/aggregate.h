#pragma once

#include "worker/graph/block.h"

#include <ATen/core/Tensor.h>

#include <optional>

namespace gnn::nn {

enum class Aggregation { Sum, Mean };

/// Reduces the rows of x over each destination's in-edges; a destination without any gets 0.
/// Differentiable in x.
/// Shapes: x float32, float64 or bfloat16 [num_sources, F]; result [num_destinations, F], of the type
/// of x or, for bfloat16, of float32 if `result` says so.
at::Tensor aggregate(
    const graph::Block& block,
    const at::Tensor& x,
    Aggregation aggregation,
    std::optional<at::ScalarType> result = {}
);

/// D^-1/2 (A + I) D^-1/2 x with one self-loop per node. Differentiable in x.
/// Shapes: as aggregate; source_degrees int64 [num_sources], in-edges without self-loops.
at::Tensor gcn_aggregate(
    const graph::Block& block,
    const at::Tensor& x,
    const at::Tensor& source_degrees,
    std::optional<at::ScalarType> result = {}
);

/// 1 / sqrt(degree + 1), the self-loop counting as one: what gcn_aggregate scales both ends of an
/// edge by, for x of type `x`.
/// Shapes: degrees_without_loops int64 [K]; result [K] of type spmm_scale_type(x).
[[nodiscard]] at::Tensor gcn_norm(const at::Tensor& degrees_without_loops, at::ScalarType x);

}  // namespace gnn::nn
