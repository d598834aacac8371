#pragma once

#include "worker/graph/block.h"
#include "worker/graph/dataset.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace gnn::loader {

/// Several small graphs as one block-diagonal graph.
struct GraphBatch {
  graph::Block block;   ///< all nodes are source and destination; indices int64
  at::Tensor node_ids;  ///< int64 [nodes]: places in the collection's node list
  /// int64 [graphs + 1]: graph g owns the rows [node_offsets[g], node_offsets[g + 1]).
  at::Tensor node_offsets;
  at::Tensor labels;  ///< int64 [graphs]
};

/// Joins the graphs of `graph_ids` in that order (DGL's batch, PyG's Batch). A graph may come
/// twice.
/// Shapes: as in GraphBatch, on the CPU.
/// Errors: TORCH_CHECK if an id is outside the collection.
[[nodiscard]] GraphBatch batch_graphs(
    const graph::Dataset& dataset, std::span<const int64_t> graph_ids
);

}  // namespace gnn::loader
