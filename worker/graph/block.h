#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gnn::graph {

/// One layer's bipartite message-passing graph (DGL's MFG): the destination nodes are the first
/// num_dst of the source nodes.
struct Block {
  at::Tensor
      indptr;  ///< int64 [num_dst + 1]: in-edges of destination i are [indptr[i], indptr[i + 1]).
  at::Tensor indices;   ///< int32 or int64 [E]: local source ids, in [0, num_src).
  at::Tensor edge_ids;  ///< int64 [E], global edge ids; undefined when not asked for.
  int64_t num_src = 0;
  int64_t num_dst = 0;
};

}  // namespace gnn::graph
