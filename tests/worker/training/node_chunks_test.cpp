#include "worker/training/node_chunks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <numeric>
#include <vector>

namespace gnn::training {
namespace {

using Ranges = std::vector<NodeRange>;

// Degrees 2, 0, 7, 1, 1, 3.
at::Tensor six_offsets() {
  return torch::tensor({0, 2, 2, 9, 10, 11, 14}, torch::kInt64);
}

graph::CscGraph graph_of_six(at::ScalarType index) {
  return graph::CscGraph::create(six_offsets(), at::arange(14).remainder(6).to(index), 6).value();
}

TEST(DivideNodes, CoversAllNodesInOrder) {
  for (const int64_t parts : {1, 2, 5, 6, 9}) {
    int64_t next = 0;
    for (const NodeRange& range : divide_nodes(six_offsets(), parts)) {
      EXPECT_EQ(range.first, next);
      EXPECT_GE(range.count, 0);
      next = range.end();
    }
    EXPECT_EQ(next, 6) << parts;
  }
}

TEST(DivideNodes, CountsInEdgesAsWork) {
  // The first of 1,001 nodes has as many in-edges as the others together.
  std::vector<int64_t> indptr = {0, 100'000};
  for (int64_t node = 0; node < 1'000; ++node) indptr.push_back(indptr.back() + 100);
  const Ranges ranges = divide_nodes(torch::tensor(indptr, torch::kInt64), 2);
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_LT(ranges[0].count, 100);
  EXPECT_GT(ranges[0].count, 1);
}

TEST(DivideNodes, LeavesRangesEmptyWhereNodesAreFew) {
  const Ranges ranges = divide_nodes(torch::tensor({0, 1}, torch::kInt64), 3);
  const int64_t nodes = std::accumulate(
      ranges.begin(),
      ranges.end(),
      int64_t{0},
      [](int64_t sum, const NodeRange& range) { return sum + range.count; }
  );
  EXPECT_EQ(ranges.size(), 3U);
  EXPECT_EQ(nodes, 1);
}

TEST(DivideList, CountsTheInEdgesOfTheListedNodesAsWork) {
  std::vector<int64_t> indptr = {0, 100'000};
  for (int64_t node = 0; node < 1'000; ++node) indptr.push_back(indptr.back() + 100);
  const at::Tensor offsets = torch::tensor(indptr, torch::kInt64);
  EXPECT_EQ(
      divide_list(offsets, at::arange(500, 508), 4),
      (Ranges{
          {.first = 0, .count = 2},
          {.first = 2, .count = 2},
          {.first = 4, .count = 2},
          {.first = 6, .count = 2}
      })
  );
  EXPECT_EQ(
      divide_list(offsets, torch::tensor({0, 7, 9}, torch::kInt64), 2),
      (Ranges{{.first = 0, .count = 1}, {.first = 1, .count = 2}})
  );
  EXPECT_EQ(divide_list(offsets, at::empty({0}, at::kLong), 2), Ranges(2));
}

TEST(CountEdges, CountsThoseOfTheListedNodes) {
  EXPECT_EQ(count_edges(six_offsets(), torch::tensor({0, 2, 5}, torch::kInt64)), 12);
  EXPECT_EQ(count_edges(six_offsets(), at::empty({0}, at::kLong)), 0);
}

TEST(PlacesOf, AreThoseOfTheNodesInTheRange) {
  const at::Tensor nodes = torch::tensor({2, 3, 7, 9}, torch::kInt64);
  EXPECT_EQ(places_of(nodes, {.first = 3, .count = 6}), (NodeRange{.first = 1, .count = 2}));
  EXPECT_EQ(places_of(nodes, {.first = 4, .count = 3}).count, 0);
  EXPECT_EQ(places_of(nodes, {.first = 0, .count = 10}), (NodeRange{.first = 0, .count = 4}));
}

TEST(CutRange, LeavesTheRestToTheLastChunk) {
  EXPECT_EQ(
      cut_range({.first = 3, .count = 5}, 2),
      (Ranges{{.first = 3, .count = 2}, {.first = 5, .count = 2}, {.first = 7, .count = 1}})
  );
  EXPECT_TRUE(cut_range({.first = 3, .count = 0}, 2).empty());
}

TEST(CutNodes, KeepsToBothLimits) {
  EXPECT_EQ(
      cut_nodes(six_offsets(), at::arange(6), {.nodes = 2, .edges = 4}),
      (Ranges{
          {.first = 0, .count = 2},
          {.first = 2, .count = 1},  // seven edges
          {.first = 3, .count = 2},
          {.first = 5, .count = 1}
      })
  );
}

TEST(CutNodes, CountsTheListedNodesAlone) {
  const at::Tensor nodes = torch::tensor({0, 3, 5}, torch::kInt64);
  EXPECT_EQ(
      cut_nodes(six_offsets(), nodes, {.nodes = 10, .edges = 3}),
      (Ranges{{.first = 0, .count = 2}, {.first = 2, .count = 1}})
  );
  EXPECT_TRUE(cut_nodes(six_offsets(), at::empty({0}, at::kLong), {}).empty());
}

TEST(InEdgesOf, AreAViewForConsecutiveNodes) {
  const graph::CscGraph graph = graph_of_six(at::kInt);
  const nn::InEdges edges = in_edges_of(graph, at::arange(2, 5));
  EXPECT_TRUE(torch::equal(edges.matrix.indptr, torch::tensor({0, 7, 8, 9}, torch::kInt64)));
  EXPECT_EQ(
      edges.matrix.indices.const_data_ptr<int32_t>(), graph.indices().const_data_ptr<int32_t>() + 2
  );
  EXPECT_EQ(edges.matrix.indices.numel(), 9);
  EXPECT_EQ(edges.matrix.num_rows, 3);
  EXPECT_EQ(edges.matrix.num_cols, 6);
  EXPECT_TRUE(torch::equal(edges.nodes, at::arange(2, 5)));
}

TEST(InEdgesOf, AreCopiedForOtherNodes) {
  for (const at::ScalarType index : {at::kInt, at::kLong}) {
    const nn::InEdges edges =
        in_edges_of(graph_of_six(index), torch::tensor({0, 1, 3, 5}, torch::kInt64));
    EXPECT_TRUE(torch::equal(edges.matrix.indptr, torch::tensor({0, 2, 2, 3, 6}, torch::kInt64)));
    EXPECT_TRUE(torch::equal(
        edges.matrix.indices, torch::tensor({0, 1, 3, 5, 0, 1}, torch::kInt64).to(index)
    ));
    EXPECT_EQ(edges.matrix.num_rows, 4);
  }
}

}  // namespace
}  // namespace gnn::training
