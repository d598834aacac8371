#pragma once

#include "worker/graph/block.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <numeric>
#include <vector>

namespace gnn::sampling {

/// The subgraph sampled around one batch of seeds. Lists are indexed by node type or edge type; a
/// homogeneous graph has one of each.
struct SampledSubgraph {
  /// Per node type: int64 [n] global ids; seeds first, then in order of discovery, hop by hop.
  std::vector<at::Tensor> node_ids;
  /// Per node type: [hops + 1], nodes that each hop added; index 0 is the seeds.
  std::vector<std::vector<int64_t>> nodes_per_hop;
  /// Per edge type: [hops], edges that each hop sampled.
  std::vector<std::vector<int64_t>> edges_per_hop;
  /// [layer, outermost (input) first][edge type].
  std::vector<std::vector<graph::Block>> blocks;
  int64_t num_seeds = 0;

  /// Sampled edges, of all edge types and hops.
  [[nodiscard]] int64_t num_edges() const {
    int64_t edges = 0;
    for (const std::vector<int64_t>& per_hop : edges_per_hop)
      edges = std::accumulate(per_hop.begin(), per_hop.end(), edges);
    return edges;
  }
};

}  // namespace gnn::sampling
