#pragma once

#include "common/result.h"
#include "worker/graph/csc_graph.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace gnn::graph {

/// A graph whose neighbour lists are ordered by the parts of their edges, so that the edges of the
/// first parts are a prefix of every list.
struct PartOrder {
  CscGraph graph;  ///< with edge ids
  /// For each part but the last, int64 [num_destinations]: position behind the edges of the parts
  /// 0..p in each list, an absolute one.
  std::vector<at::Tensor> ends;
};

/// Orders each neighbour list by part; edges of one part keep their order. The new arrays are this
/// process's own: the given graph, which may be a read-only mapping, stays as it is. A relation and
/// its reverse, which has the same edge ids, are cut by the same parts.
/// Shapes: parts uint8 [number of edge ids], by edge id, each in [0, num_parts), contiguous, on the
/// CPU; indices keep their dtype.
/// Errors: Data naming the first edge whose id or part is out of range.
[[nodiscard]] Result<PartOrder> order_by_part(
    const CscGraph& graph, const at::Tensor& parts, int64_t num_parts
);

}  // namespace gnn::graph
