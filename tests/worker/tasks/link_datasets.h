#pragma once

#include "worker/graph/dataset.h"

#include <ATen/Functions.h>

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace gnn::tasks {

/// A link and the ids of its ends.
using LinkEnds = std::pair<int64_t, int64_t>;

/// In-neighbour lists of the edges (source, destination), whose ids are their places.
inline graph::CscGraph csc_of(
    const std::vector<LinkEnds>& edges, int64_t num_sources, int64_t num_destinations
) {
  std::vector<int64_t> indptr{0};
  std::vector<int64_t> indices;
  std::vector<int64_t> ids;
  for (int64_t node = 0; node < num_destinations; ++node) {
    for (size_t id = 0; id < edges.size(); ++id) {
      if (edges[id].second != node) continue;
      indices.push_back(edges[id].first);
      ids.push_back(static_cast<int64_t>(id));
    }
    indptr.push_back(static_cast<int64_t>(indices.size()));
  }
  return graph::CscGraph::create(
             at::tensor(indptr, at::kLong),
             at::tensor(indices, at::kLong),
             num_sources,
             at::tensor(ids, at::kLong)
  )
      .value();
}

/// Users and items, with the links (user, to, item) and their reverse.
inline graph::Dataset bipartite_dataset(
    const std::vector<LinkEnds>& links, int64_t num_users, int64_t num_items
) {
  graph::Dataset dataset;
  dataset.name = "shop";
  dataset.node_types = {
      {.name = "user", .num_nodes = num_users, .features = std::nullopt, .labels = {}},
      {.name = "item", .num_nodes = num_items, .features = std::nullopt, .labels = {}}
  };
  std::vector<LinkEnds> reverse;
  std::vector<int64_t> pairs;
  for (const auto& [user, item] : links) {
    reverse.emplace_back(item, user);
    pairs.insert(pairs.end(), {user, item});
  }
  dataset.edge_types.push_back(
      {.source = "user",
       .relation = "to",
       .destination = "item",
       .source_index = 0,
       .destination_index = 1,
       .graph = csc_of(links, num_users, num_items),
       .features = std::nullopt}
  );
  dataset.edge_types.push_back(
      {.source = "item",
       .relation = "rev_to",
       .destination = "user",
       .source_index = 1,
       .destination_index = 0,
       .graph = csc_of(reverse, num_items, num_users),
       .features = std::nullopt}
  );
  dataset.links = graph::LinkData{
      .edge_type = 0, .reverse_edge_type = 1, .pairs = at::tensor(pairs, at::kLong).view({-1, 2})
  };
  return dataset;
}

/// Users of two kinds, each of which is joined to about `degree` items of its own kind.
inline graph::Dataset two_tastes(int64_t num_users, int64_t num_items, int64_t degree) {
  std::vector<LinkEnds> links;
  for (int64_t user = 0; user < num_users; ++user) {
    for (int64_t i = 0; i < degree; ++i) {
      const int64_t item = (7 * user + 5 * i) % (num_items / 2);
      links.emplace_back(user, 2 * item + user % 2);
    }
  }
  return bipartite_dataset(links, num_users, num_items);
}

}  // namespace gnn::tasks
