#pragma once

#include "worker/data/csc_builder.h"
#include "worker/data/dataset_arrays.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace gnn::partition::testing {

/// Source, destination and id of each edge, by the ids that `original` gives; in no order of the lists.
inline std::vector<std::array<int64_t, 3>> edges_of(
    const data::EdgeTable& table,
    const std::vector<int64_t>& original_sources,
    const std::vector<int64_t>& original_destinations
) {
  std::vector<std::array<int64_t, 3>> edges;
  data::CscEdges(table.indptr, table.indices)
      .for_each_chunk([&](std::span<const int64_t> sources, std::span<const int64_t> destinations) {
        for (size_t i = 0; i < sources.size(); ++i) {
          const size_t entry = edges.size();
          edges.push_back(
              {original_sources[static_cast<size_t>(sources[i])],
               original_destinations[static_cast<size_t>(destinations[i])],
               table.edge_ids.defined() ? table.edge_ids.view<int64_t>()[entry]
                                        : static_cast<int64_t>(entry)}
          );
        }
      });
  std::sort(edges.begin(), edges.end());
  return edges;
}

/// Expects row r of `made` to have the bytes of row original[r] of `from`.
inline void expect_same_rows(
    const data::Array& from, const data::Array& made, const std::vector<int64_t>& original
) {
  ASSERT_EQ(from.defined(), made.defined());
  if (!from.defined()) return;
  ASSERT_EQ(from.shape(), made.shape());
  ASSERT_EQ(from.dtype(), made.dtype());
  const int64_t width = from.num_bytes() / from.size(0);
  for (size_t row = 0; row < original.size(); ++row) {
    const int64_t at = static_cast<int64_t>(row) * width;
    ASSERT_EQ(
        std::memcmp(
            made.bytes() + at, from.bytes() + original[row] * width, static_cast<size_t>(width)
        ),
        0
    ) << from.name()
      << " " << row;
  }
}

inline std::vector<int64_t> mapped_ids(
    const data::Array& ids, const std::vector<int64_t>& original
) {
  std::vector<int64_t> mapped;
  for (const int64_t id : ids.view<int64_t>()) mapped.push_back(original[static_cast<size_t>(id)]);
  std::sort(mapped.begin(), mapped.end());
  return mapped;
}

inline std::vector<std::vector<int64_t>> original_ids(const data::DatasetArrays& made) {
  std::vector<std::vector<int64_t>> ids;
  for (const data::Array& array : made.partitions->original_ids) {
    const auto view = array.view<int64_t>();
    ids.emplace_back(view.begin(), view.end());
  }
  return ids;
}

/// Expects each list to be in the order of its sources, then of the edges' ids.
inline void expect_ascending_lists(const data::EdgeTable& table) {
  const auto ends = table.indptr.view<int64_t>();
  std::array<int64_t, 3> before{-1, 0, 0};
  size_t entry = 0;
  size_t list = 0;
  data::CscEdges(table.indptr, table.indices)
      .for_each_chunk([&](std::span<const int64_t> sources, std::span<const int64_t>) {
        for (const int64_t source : sources) {
          while (static_cast<int64_t>(entry) >= ends[list + 1]) ++list;
          const int64_t id = table.edge_ids.defined() ? table.edge_ids.view<int64_t>()[entry] : 0;
          const std::array<int64_t, 3> here{static_cast<int64_t>(list), source, id};
          ASSERT_LE(before, here) << "entry " << entry;
          before = here;
          ++entry;
        }
      });
}

/// Expects a partitioned data set to be `from` with other numbers for its nodes: features, labels,
/// edges with their ids in ascending lists, split and links. Edges without ids are compared without
/// them.
inline void expect_same_graph(const data::DatasetArrays& from, const data::DatasetArrays& made) {
  const auto original = original_ids(made);
  std::map<std::string, size_t> index;
  std::vector<std::vector<int64_t>> same;
  for (size_t table = 0; table < from.node_tables.size(); ++table) {
    const data::NodeTable& wanted = from.node_tables[table];
    const data::NodeTable& found = made.node_tables[table];
    index[wanted.name] = table;
    same.emplace_back();
    for (int64_t id = 0; id < wanted.num_nodes; ++id) same.back().push_back(id);
    auto once = original[table];
    std::sort(once.begin(), once.end());
    ASSERT_EQ(once, same.back()) << "each node once";
    expect_same_rows(wanted.features, found.features, original[table]);
    expect_same_rows(wanted.labels, found.labels, original[table]);
    for (size_t i = 0; i < wanted.more_features.size(); ++i) {
      expect_same_rows(wanted.more_features[i].rows, found.more_features[i].rows, original[table]);
    }
  }
  for (size_t i = 0; i < from.edge_tables.size(); ++i) {
    const data::EdgeTable& wanted = from.edge_tables[i];
    const data::EdgeTable& found = made.edge_tables[i];
    const size_t source = index[wanted.source];
    const size_t destination = index[wanted.destination];
    auto wanted_edges = edges_of(wanted, same[source], same[destination]);
    auto found_edges = edges_of(found, original[source], original[destination]);
    if (!found.edge_ids.defined()) {
      for (auto* edges : {&wanted_edges, &found_edges}) {
        for (auto& edge : *edges) edge[2] = 0;
        std::sort(edges->begin(), edges->end());
      }
    }
    ASSERT_EQ(wanted_edges, found_edges);
    expect_ascending_lists(found);
    if (from.links && (i == from.links->edge_table || i == from.links->reverse_edge_table)) {
      ASSERT_TRUE(found.edge_ids.defined()) << "links go by edge id";
    }
    if (wanted.features.defined()) {
      ASSERT_TRUE(found.edge_ids.defined()) << "features go by edge id";
      std::vector<int64_t> rows(static_cast<size_t>(wanted.features.size(0)));
      for (size_t row = 0; row < rows.size(); ++row) rows[row] = static_cast<int64_t>(row);
      expect_same_rows(wanted.features, found.features, rows);
    }
  }
  const std::vector<int64_t>& target = original[index[from.target_node_type]];
  const std::vector<int64_t>& target_same = same[index[from.target_node_type]];
  for (const auto part :
       {&data::DatasetArrays::train, &data::DatasetArrays::validation, &data::DatasetArrays::test
       }) {
    if (!(from.*part).defined()) continue;
    EXPECT_EQ(mapped_ids(from.*part, target_same), mapped_ids(made.*part, target));
    const auto ids = (made.*part).view<int64_t>();
    EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  }
  ASSERT_EQ(from.links.has_value(), made.links.has_value());
  if (!from.links) return;
  const data::EdgeTable& links = from.edge_tables[from.links->edge_table];
  const auto wanted = from.links->pairs.view<int64_t>();
  const auto found = made.links->pairs.view<int64_t>();
  for (size_t at = 0; at < wanted.size(); at += 2) {
    int64_t source = original[index[links.source]][static_cast<size_t>(found[at])];
    int64_t destination = original[index[links.destination]][static_cast<size_t>(found[at + 1])];
    if (from.links->reverse_edge_table == from.links->edge_table) {
      EXPECT_LE(found[at], found[at + 1]);
      if (source > destination) std::swap(source, destination);
    }
    ASSERT_EQ(source, wanted[at]);
    ASSERT_EQ(destination, wanted[at + 1]);
  }
}

}  // namespace gnn::partition::testing
