#pragma once

#include <cstdint>

namespace gnn::sampling::core {

/// Which nodes a hop expands.
enum class SamplingRule : uint8_t {
  /// The nodes that the hop before discovered, as PyG does. Every node is sampled once, and all
  /// layers share its edges: a layer nearer to the seeds uses a prefix of the next one's edges
  /// (PyG's trim_to_layer).
  NewNodes,
  /// All nodes known so far, drawn anew in each hop, as DGL does. Every layer has its own edges.
  AllSeen,
};

}  // namespace gnn::sampling::core
