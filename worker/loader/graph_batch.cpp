#include "worker/loader/graph_batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace gnn::loader {
namespace {

at::Tensor int64_tensor(int64_t size) {
  return at::empty({size}, at::kLong);
}

// Copies the neighbour lists of nodes [first, last), renumbered so that `first` is `new_first`.
// Returns the number of edges.
template <class Index>
int64_t copy_graph_edges(
    const graph::CscGraph& graph, int64_t first, int64_t last, int64_t new_first, int64_t* indices
) {
  const int64_t* indptr = graph.indptr().const_data_ptr<int64_t>();
  const Index* sources = graph.indices().const_data_ptr<Index>();
  const int64_t shift = new_first - first;
  std::transform(sources + indptr[first], sources + indptr[last], indices, [shift](Index source) {
    return static_cast<int64_t>(source) + shift;
  });
  return indptr[last] - indptr[first];
}

}  // namespace

GraphBatch batch_graphs(const graph::Dataset& dataset, std::span<const int64_t> graph_ids) {
  TORCH_CHECK(
      dataset.graphs.has_value(), dataset.name, ": a batch of graphs needs a collection of graphs"
  );
  const graph::GraphCollection& collection = *dataset.graphs;
  const graph::CscGraph& graph = dataset.graph();
  const int64_t* offsets = collection.node_offsets.const_data_ptr<int64_t>();
  const int64_t* labels = collection.labels.const_data_ptr<int64_t>();
  const int64_t* indptr = graph.indptr().const_data_ptr<int64_t>();

  // 1. Sizes.
  const auto num_graphs = static_cast<int64_t>(graph_ids.size());
  int64_t num_nodes = 0;
  int64_t num_edges = 0;
  for (const int64_t id : graph_ids) {
    TORCH_CHECK(
        id >= 0 && id < collection.num_graphs(),
        "graph ",
        id,
        " is outside [0, ",
        collection.num_graphs(),
        ")"
    );
    num_nodes += offsets[id + 1] - offsets[id];
    num_edges += indptr[offsets[id + 1]] - indptr[offsets[id]];
  }

  // 2. Each graph's nodes and edges, one after the other.
  GraphBatch batch{
      .block =
          {.indptr = int64_tensor(num_nodes + 1),
           .indices = int64_tensor(num_edges),
           .edge_ids = {},
           .num_sources = num_nodes,
           .num_destinations = num_nodes},
      .node_ids = int64_tensor(num_nodes),
      .node_offsets = int64_tensor(num_graphs + 1),
      .labels = int64_tensor(num_graphs),
  };
  auto* new_indptr = batch.block.indptr.mutable_data_ptr<int64_t>();
  auto* new_indices = batch.block.indices.mutable_data_ptr<int64_t>();
  auto* new_ids = batch.node_ids.mutable_data_ptr<int64_t>();
  auto* new_offsets = batch.node_offsets.mutable_data_ptr<int64_t>();
  auto* new_labels = batch.labels.mutable_data_ptr<int64_t>();
  const bool narrow = graph.indices().scalar_type() == at::kInt;
  int64_t node = 0;
  int64_t edge = 0;
  for (int64_t i = 0; i < num_graphs; ++i) {
    const int64_t id = graph_ids[static_cast<size_t>(i)];
    const int64_t first = offsets[id];
    const int64_t last = offsets[id + 1];
    new_offsets[i] = node;
    new_labels[i] = labels[id];
    std::iota(new_ids + node, new_ids + node + (last - first), first);
    for (int64_t v = first; v < last; ++v)
      new_indptr[node + (v - first)] = edge + indptr[v] - indptr[first];
    edge += narrow ? copy_graph_edges<int32_t>(graph, first, last, node, new_indices + edge)
                   : copy_graph_edges<int64_t>(graph, first, last, node, new_indices + edge);
    node += last - first;
  }
  new_offsets[num_graphs] = node;
  new_indptr[num_nodes] = edge;
  return batch;
}

}  // namespace gnn::loader
