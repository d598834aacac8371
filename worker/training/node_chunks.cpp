#include "worker/training/node_chunks.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/sub.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace gnn::training {
namespace {

// What a node costs beside its in-edges, in in-edges: its dense products. With 256 channels these
// take about as long as summing this many rows.
constexpr int64_t kEdgesPerNode = 16;

int64_t work_before(const int64_t* indptr, int64_t node) {
  return indptr[node] + kEdgesPerNode * node;
}

// work * part / parts, without overflow: the product may not fit.
int64_t share_of(int64_t work, int64_t part, int64_t parts) {
  return work / parts * part + work % parts * part / parts;
}

// The lists of `count` nodes from `first` on.
nn::Csr view_rows(const graph::CscGraph& graph, int64_t first, int64_t count) {
  const auto* const offsets = graph.indptr().const_data_ptr<int64_t>();
  const int64_t begin = offsets[first];
  return {
      .indptr = at::sub(graph.indptr().narrow(0, first, count + 1), begin),
      .indices = graph.indices().narrow(0, begin, offsets[first + count] - begin),
      .num_rows = count,
      .num_cols = graph.num_sources(),
  };
}

// The lists of any nodes, copied.
nn::Csr copy_rows(const graph::CscGraph& graph, const at::Tensor& nodes) {
  const auto* const offsets = graph.indptr().const_data_ptr<int64_t>();
  const auto* const ids = nodes.const_data_ptr<int64_t>();
  const int64_t count = nodes.numel();
  at::Tensor indptr = at::empty({count + 1}, at::kLong);
  auto* const rows = indptr.mutable_data_ptr<int64_t>();
  rows[0] = 0;
  for (int64_t row = 0; row < count; ++row) {
    rows[row + 1] = rows[row] + offsets[ids[row] + 1] - offsets[ids[row]];
  }
  at::Tensor indices = at::empty({rows[count]}, graph.indices().options());
  const auto size = static_cast<int64_t>(indices.element_size());
  const auto* const from = static_cast<const char*>(graph.indices().const_data_ptr());
  auto* const to = static_cast<char*>(indices.mutable_data_ptr());
  for (int64_t row = 0; row < count; ++row) {
    const auto bytes = static_cast<size_t>((rows[row + 1] - rows[row]) * size);
    // An empty tensor's pointer may be null, which memcpy does not allow.
    if (bytes > 0) std::memcpy(to + rows[row] * size, from + offsets[ids[row]] * size, bytes);
  }
  return {
      .indptr = std::move(indptr),
      .indices = std::move(indices),
      .num_rows = count,
      .num_cols = graph.num_sources(),
  };
}

}  // namespace

std::vector<NodeRange> divide_nodes(const at::Tensor& indptr, int64_t parts) {
  const auto* const data = indptr.const_data_ptr<int64_t>();
  const int64_t num_nodes = indptr.numel() - 1;
  const int64_t work = work_before(data, num_nodes);
  std::vector<NodeRange> ranges;
  int64_t first = 0;
  for (int64_t part = 1; part <= parts; ++part) {
    const int64_t wanted = share_of(work, part, parts);
    int64_t low = first;
    int64_t high = num_nodes;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (work_before(data, middle) < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    ranges.push_back({.first = first, .count = low - first});
    first = low;
  }
  return ranges;
}

int64_t count_edges(const at::Tensor& indptr, const at::Tensor& nodes) {
  const auto* const offsets = indptr.const_data_ptr<int64_t>();
  const auto* const ids = nodes.const_data_ptr<int64_t>();
  int64_t edges = 0;
  for (int64_t place = 0; place < nodes.numel(); ++place)
    edges += offsets[ids[place] + 1] - offsets[ids[place]];
  return edges;
}

std::vector<NodeRange> divide_list(
    const at::Tensor& indptr, const at::Tensor& nodes, int64_t parts
) {
  const auto* const offsets = indptr.const_data_ptr<int64_t>();
  const auto* const ids = nodes.const_data_ptr<int64_t>();
  const int64_t work = count_edges(indptr, nodes) + kEdgesPerNode * nodes.numel();
  std::vector<NodeRange> ranges;
  int64_t place = 0;
  int64_t done = 0;
  for (int64_t part = 1; part <= parts; ++part) {
    const int64_t first = place;
    const int64_t wanted = share_of(work, part, parts);
    for (; place < nodes.numel() && done < wanted; ++place)
      done += offsets[ids[place] + 1] - offsets[ids[place]] + kEdgesPerNode;
    ranges.push_back({.first = first, .count = place - first});
  }
  return ranges;
}

NodeRange places_of(const at::Tensor& nodes, const NodeRange& range) {
  const auto* const begin = nodes.const_data_ptr<int64_t>();
  const auto* const end = begin + nodes.numel();
  const auto* const first = std::lower_bound(begin, end, range.first);
  return {.first = first - begin, .count = std::lower_bound(first, end, range.end()) - first};
}

std::vector<NodeRange> cut_range(const NodeRange& range, int64_t nodes) {
  std::vector<NodeRange> chunks;
  for (int64_t first = range.first; first < range.end(); first += nodes) {
    chunks.push_back({.first = first, .count = std::min(nodes, range.end() - first)});
  }
  return chunks;
}

std::vector<NodeRange> cut_nodes(
    const at::Tensor& indptr, const at::Tensor& nodes, const ChunkLimits& limits
) {
  const auto* const offsets = indptr.const_data_ptr<int64_t>();
  const auto* const ids = nodes.const_data_ptr<int64_t>();
  std::vector<NodeRange> chunks;
  NodeRange chunk;
  int64_t edges = 0;
  for (int64_t place = 0; place < nodes.numel(); ++place) {
    const int64_t degree = offsets[ids[place] + 1] - offsets[ids[place]];
    const bool full = chunk.count == limits.nodes || edges + degree > limits.edges;
    if (full && chunk.count > 0) {
      chunks.push_back(chunk);
      chunk = {.first = place, .count = 0};
      edges = 0;
    }
    ++chunk.count;
    edges += degree;
  }
  if (chunk.count > 0) chunks.push_back(chunk);
  return chunks;
}

NodeRange span_of(const at::Tensor& nodes) {
  const auto* const ids = nodes.const_data_ptr<int64_t>();
  return {.first = ids[0], .count = ids[nodes.numel() - 1] + 1 - ids[0]};
}

bool are_consecutive(const at::Tensor& nodes) {
  const auto* const ids = nodes.const_data_ptr<int64_t>();
  return ids[nodes.numel() - 1] - ids[0] + 1 == nodes.numel();
}

nn::InEdges in_edges_of(const graph::CscGraph& graph, const at::Tensor& nodes) {
  nn::Csr matrix = are_consecutive(nodes)
                       ? view_rows(graph, nodes.const_data_ptr<int64_t>()[0], nodes.numel())
                       : copy_rows(graph, nodes);
  return {.matrix = std::move(matrix), .nodes = nodes, .norm = {}};
}

}  // namespace gnn::training
