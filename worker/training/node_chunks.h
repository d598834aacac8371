#pragma once

#include "worker/graph/csc_graph.h"
#include "worker/nn/conv/message_passing.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace gnn::training {

/// Consecutive nodes, or places in a list of nodes: [first, first + count).
struct NodeRange {
  int64_t first = 0;
  int64_t count = 0;

  [[nodiscard]] int64_t end() const { return first + count; }
  friend bool operator==(const NodeRange&, const NodeRange&) = default;
};

/// The most that one chunk holds.
struct ChunkLimits {
  int64_t nodes = 8192;
  int64_t edges = int64_t{4} << 20;  ///< in-edges; a node with more is a chunk of its own
};

/// Divides all nodes into `parts` consecutive ranges that make about equal work in a layer. A range
/// may be empty.
/// Shapes: indptr int64 [num_nodes + 1], CPU.
[[nodiscard]] std::vector<NodeRange> divide_nodes(const at::Tensor& indptr, int64_t parts);

/// Divides a list of nodes into `parts` ranges of places that make about equal work in a layer. A
/// range may be empty.
/// Shapes: indptr as above; nodes int64 [K], contiguous, CPU.
[[nodiscard]] std::vector<NodeRange> divide_list(
    const at::Tensor& indptr, const at::Tensor& nodes, int64_t parts
);

/// The in-edges of all nodes of a list.
/// Shapes: as divide_list().
[[nodiscard]] int64_t count_edges(const at::Tensor& indptr, const at::Tensor& nodes);

/// The places of the nodes in `range` in a list of ascending nodes.
/// Shapes: nodes int64 [K], contiguous, CPU.
[[nodiscard]] NodeRange places_of(const at::Tensor& nodes, const NodeRange& range);

/// Cuts a range into chunks of at most `nodes` nodes.
[[nodiscard]] std::vector<NodeRange> cut_range(const NodeRange& range, int64_t nodes);

/// Cuts a list of nodes into chunks within the limits; the ranges are of places in the list.
/// Shapes: indptr as above; nodes int64 [K], contiguous, CPU.
[[nodiscard]] std::vector<NodeRange> cut_nodes(
    const at::Tensor& indptr, const at::Tensor& nodes, const ChunkLimits& limits
);

/// The consecutive nodes that hold all of some ascending ones (int64 [K], K > 0, contiguous, CPU).
[[nodiscard]] NodeRange span_of(const at::Tensor& nodes);

/// Whether ascending `nodes` (int64 [K], K > 0, CPU) have no gaps.
[[nodiscard]] bool are_consecutive(const at::Tensor& nodes);

/// The in-edges of `nodes`, without norm: a view of the graph's indices if the nodes are
/// consecutive, otherwise a copy.
/// Shapes: nodes int64 [K], K > 0, ascending, contiguous, CPU.
[[nodiscard]] nn::InEdges in_edges_of(const graph::CscGraph& graph, const at::Tensor& nodes);

}  // namespace gnn::training
