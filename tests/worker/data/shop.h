#pragma once

#include "common/progress_bar.h"
#include "worker/data/array.h"
#include "worker/data/csc_builder.h"
#include "worker/data/dataset_arrays.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gnn::data::testing {

/// An int64 array in memory.
inline Array ids_array(const std::string& name, const std::vector<int64_t>& values) {
  MemoryStorage memory;
  Array array = *memory.create(name, DType::Int64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), array.mutable_view<int64_t>().begin());
  return array;
}

/// (user, buys, item) of 3 users and 2 items, with these edges and the ids of their positions.
inline EdgeTable buys(
    const std::vector<int64_t>& users,
    const std::vector<int64_t>& items,
    const std::vector<int64_t>& ids
) {
  MemoryStorage memory;
  SilentProgressBar silent;
  const ArrayEdges edges(
      ids_array("users", users),
      ids_array("items", items),
      static_cast<int64_t>(users.size()),
      "edge ",
      0
  );
  const CscArrays csc = *build_csc(
      edges,
      {.num_sources = 3, .num_destinations = 2, .edge_ids = true, .input_ids = ids_array("ids", ids)
      },
      memory,
      "edges.user.buys.item",
      silent
  );
  return {
      .source = "user",
      .relation = "buys",
      .destination = "item",
      .indptr = csc.indptr,
      .indices = csc.indices,
      .edge_ids = csc.edge_ids,
      .features = {}
  };
}

/// Three users buy two items, which are alike. Edges by id: 2-0, 0-1, 1-0, 2-1.
inline DatasetArrays shop() {
  static const EdgeTable kBought = buys({2, 0, 1, 2}, {0, 1, 0, 1}, {0, 1, 2, 3});
  DatasetArrays shop;
  shop.name = "shop";
  shop.node_tables.push_back({.name = "user", .num_nodes = 3, .features = {}, .labels = {}});
  shop.node_tables.push_back({.name = "item", .num_nodes = 2, .features = {}, .labels = {}});
  shop.edge_tables.push_back(kBought);
  shop.edge_tables.push_back(
      {.source = "item",
       .relation = "like",
       .destination = "item",
       .indptr = ids_array("edges.item.like.item.indptr", {0, 1, 2}),
       .indices = ids_array("edges.item.like.item.indices", {1, 0}),
       .edge_ids = {},
       .features = {}}
  );
  shop.target_node_type = "user";
  return shop;
}

/// "source-destination" by edge id.
inline std::map<int64_t, std::string> ends_of(const EdgeTable& table) {
  std::map<int64_t, std::string> ends;
  size_t entry = 0;
  const auto ids = table.edge_ids.view<int64_t>();
  CscEdges(table.indptr, table.indices)
      .for_each_chunk([&](std::span<const int64_t> sources, std::span<const int64_t> destinations) {
        for (size_t i = 0; i < sources.size(); ++i, ++entry) {
          ends[ids[entry]] = std::to_string(sources[i]) + "-" + std::to_string(destinations[i]);
        }
      });
  return ends;
}

}  // namespace gnn::data::testing
