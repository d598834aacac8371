#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gnn::graph {

/// One layer's bipartite message-passing graph (DGL's MFG). Within a node type its destinations are
/// the first num_destinations of its sources; between two types they are rows of another list, and
/// may be more than the sources.
struct Block {
  /// int64 [num_destinations + 1]: the in-edges of destination i are [indptr[i], indptr[i + 1]).
  at::Tensor indptr;
  at::Tensor indices;   ///< int32 or int64 [E]: local source ids, in [0, num_sources)
  at::Tensor edge_ids;  ///< int64 [E], global edge ids; undefined unless requested
  int64_t num_sources = 0;
  int64_t num_destinations = 0;
};

}  // namespace gnn::graph
