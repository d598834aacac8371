#pragma once

#include "common/progress_bar.h"
#include "worker/data/array.h"
#include "worker/data/counter_random.h"
#include "worker/data/csc_builder.h"
#include "worker/data/dataset_arrays.h"
#include "worker/data/links.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace gnn::partition::testing {

using data::Array;
using data::DType;

template <class T>
Array array_of(const std::string& name, const std::vector<T>& values) {
  data::MemoryStorage memory;
  Array array =
      *memory.create(name, data::DTypeOf<T>::kValue, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), array.template mutable_view<T>().begin());
  return array;
}

/// Rows whose bytes tell which row they are.
inline Array rows_of(const std::string& name, DType dtype, int64_t count, int64_t width) {
  data::MemoryStorage memory;
  Array array = *memory.create(name, dtype, {count, width});
  const data::CounterRandom random(static_cast<uint64_t>(count), 77);
  // Two bytes of small numbers are finite, whatever the type.
  for (int64_t i = 0; i < array.num_bytes(); ++i) {
    array.mutable_bytes()[i] = static_cast<std::byte>(random.below(static_cast<uint64_t>(i), 60));
  }
  return array;
}

struct SetOptions {
  int64_t nodes = 300;
  int64_t communities = 6;  ///< node v is in community v % communities
  int64_t degree = 10;      ///< edges are nodes times this
  double within = 0.9;      ///< the share of edges within a community
  uint64_t seed = 1;
  bool undirected = false;
  bool link_ids = true;  ///< whether links have ids that are not their places
};

inline data::EdgeTable edges_between(
    const data::EdgeTypeName& name, int64_t sources, int64_t destinations, const SetOptions& options
) {
  const data::CounterRandom random(options.seed, 3);
  std::vector<int64_t> from;
  std::vector<int64_t> to;
  uint64_t draw = 0;
  for (int64_t edge = 0; edge < destinations * options.degree; ++edge) {
    const int64_t destination = random.below(draw++, destinations);
    int64_t source = random.below(draw++, sources);
    if (random.uniform(draw++) < options.within) {
      const int64_t moved =
          source - source % options.communities + destination % options.communities;
      source = moved < sources ? moved : source;
    }
    from.push_back(source);
    to.push_back(destination);
  }
  data::MemoryStorage memory;
  SilentProgressBar silent;
  const data::ArrayEdges edges(
      array_of("from", from), array_of("to", to), static_cast<int64_t>(from.size()), "edge ", 0
  );
  const data::CscArrays csc = *data::build_csc(
      edges,
      {.num_sources = sources,
       .num_destinations = destinations,
       .to_undirected = options.undirected,
       .edge_ids = true},
      memory,
      array_prefix(name),
      silent
  );
  return {
      .source = name.source,
      .relation = name.relation,
      .destination = name.destination,
      .indptr = csc.indptr,
      .indices = csc.indices,
      .edge_ids = csc.edge_ids,
      .features = {}
  };
}

/// One node type with features of two types, labels, split and edge features.
inline data::DatasetArrays community_set(const SetOptions& options) {
  data::DatasetArrays set;
  set.name = "communities";
  set.target_node_type = "node";
  set.num_classes = 7;
  data::NodeTable nodes;
  nodes.name = "node";
  nodes.num_nodes = options.nodes;
  nodes.features = rows_of("nodes.node.features", DType::Float16, options.nodes, 3);
  nodes.more_features.push_back(
      {.name = "more", .rows = rows_of("nodes.node.more", DType::Float64, options.nodes, 2)}
  );
  std::vector<int64_t> labels;
  std::vector<std::vector<int64_t>> split(3);
  for (int64_t node = 0; node < options.nodes; ++node) {
    labels.push_back(node % 7);
    split[node % 5 == 0 ? 0 : node % 5 == 1 ? 1 : 2].push_back(node);
  }
  nodes.labels = array_of("nodes.node.labels", labels);
  set.node_tables.push_back(nodes);
  set.train = array_of("split.train", split[0]);
  set.validation = array_of("split.validation", split[1]);
  set.test = array_of("split.test", split[2]);
  set.edge_tables.push_back(edges_between(
      {.source = "node", .relation = "to", .destination = "node"},
      options.nodes,
      options.nodes,
      options
  ));
  data::EdgeTable& edges = set.edge_tables[0];
  if (options.undirected) {
    edges.edge_ids = {};  // an edge's id is its position
  } else {
    edges.features =
        rows_of("edges.node.to.node.features", DType::Float32, edges.indices.num_elements(), 2);
  }
  return set;
}

/// Users and items with links, their reverse, and a relation of items.
inline data::DatasetArrays link_set(const SetOptions& options) {
  data::DatasetArrays set;
  set.name = "links";
  set.target_node_type = "user";
  const int64_t items = options.nodes / 2;
  set.node_tables.resize(2);
  set.node_tables[0].name = "user";
  set.node_tables[0].num_nodes = options.nodes;
  set.node_tables[1].name = "item";
  set.node_tables[1].num_nodes = items;
  set.node_tables[1].features = rows_of("nodes.item.features", DType::Float32, items, 4);
  set.edge_tables.push_back(edges_between(
      {.source = "user", .relation = "to", .destination = "item"}, options.nodes, items, options
  ));
  if (!options.link_ids) set.edge_tables[0].edge_ids = {};
  set.edge_tables.push_back(edges_between(
      {.source = "item", .relation = "like", .destination = "item"}, items, items, options
  ));
  data::MemoryStorage memory;
  SilentProgressBar silent;
  set = *data::set_links(
      set, {.source = "user", .relation = "to", .destination = "item"}, memory, silent
  );
  return *data::add_reverse(set, memory, silent);
}

/// The undirected edges of community_set() as links.
inline data::DatasetArrays undirected_link_set(SetOptions options) {
  options.undirected = true;
  data::DatasetArrays set = community_set(options);
  set.train = set.validation = set.test = set.node_tables[0].labels = {};
  set.num_classes = 0;
  data::MemoryStorage memory;
  SilentProgressBar silent;
  return *data::set_links(
      set, {.source = "node", .relation = "to", .destination = "node"}, memory, silent
  );
}

}  // namespace gnn::partition::testing
