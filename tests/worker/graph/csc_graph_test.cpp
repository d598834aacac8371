#include "worker/graph/csc_graph.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

namespace gnn::graph {
namespace {

using ::testing::HasSubstr;

at::Tensor longs(std::vector<int64_t> values) {
  return at::tensor(values, at::kLong);
}

TEST(CscGraph, KeepsItsTensors) {
  const auto graph = CscGraph::create(longs({0, 2, 3}), at::tensor({1, 2, 0}, at::kInt), 3);
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->num_destinations(), 2);
  EXPECT_EQ(graph->num_sources(), 3);
  EXPECT_EQ(graph->num_edges(), 3);
  EXPECT_FALSE(graph->edge_ids().defined());
}

TEST(CscGraph, AcceptsAnEmptyGraph) {
  const auto graph = CscGraph::create(longs({0}), longs({}), 0);
  ASSERT_TRUE(graph.has_value());
  EXPECT_EQ(graph->num_destinations(), 0);
}

TEST(CscGraph, NamesTheBadTensorAndPosition) {
  EXPECT_THAT(
      CscGraph::create(longs({0, 2, 1}), longs({0}), 3).error().message, HasSubstr("indptr[2]")
  );
  EXPECT_THAT(
      CscGraph::create(longs({0, 1}), longs({3}), 3).error().message, HasSubstr("indices[0]")
  );
  EXPECT_THAT(
      CscGraph::create(longs({0, 1}), longs({-1}), 3).error().message, HasSubstr("found -1")
  );
  EXPECT_THAT(
      CscGraph::create(longs({0, 2}), longs({0}), 1).error().message, HasSubstr("number of edges 1")
  );
  EXPECT_THAT(
      CscGraph::create(longs({0, 1}), at::zeros({1}, at::kFloat), 1).error().message,
      HasSubstr("int32 or int64")
  );
  EXPECT_THAT(
      CscGraph::create(longs({0, 1}), longs({0}), 1, longs({0, 1})).error().message,
      HasSubstr("edge_ids: expected int64 [1]")
  );
}

TEST(CscGraph, ChecksItsEndsAtOnceAndTheRestInShares) {
  EXPECT_FALSE(CscGraph::create_unchecked(longs({0, 2}), longs({0}), 1));
  EXPECT_FALSE(CscGraph::create_unchecked(longs({1, 1}), longs({0}), 1));
  SilentProgressBar silent;
  const auto descends = CscGraph::create_unchecked(longs({0, 2, 1, 2}), longs({0, 0}), 1);
  ASSERT_TRUE(descends) << descends.error().message;
  EXPECT_TRUE(descends->check_elements({.index = 0, .count = 3}, silent));
  EXPECT_THAT(
      descends->check_elements({.index = 1, .count = 3}, silent).error().message,
      HasSubstr("indptr[2]: expected at least 2, found 1")
  );
  EXPECT_TRUE(descends->check_elements({.index = 2, .count = 3}, silent));
  const auto outside = CscGraph::create_unchecked(longs({0, 3}), longs({0, 0, 7}), 1);
  EXPECT_TRUE(outside->check_elements({.index = 0, .count = 2}, silent));
  EXPECT_THAT(
      outside->check_elements({.index = 1, .count = 2}, silent).error().message,
      HasSubstr("indices[2]: expected a node in [0, 1), found 7")
  );
}

// Checks are made in pieces of 2^22 elements.
TEST(CscGraph, ChecksTheElementsOnBothSidesOfAPiecesEnd) {
  constexpr int64_t kEdges = (int64_t{1} << 22) + 2;
  SilentProgressBar silent;
  for (int64_t edge = kEdges - 4; edge < kEdges; ++edge) {
    at::Tensor sources = at::zeros({kEdges}, at::kInt);
    sources[edge] = 1;
    const auto graph = CscGraph::create_unchecked(longs({0, kEdges}), std::move(sources), 1);
    ASSERT_TRUE(graph) << graph.error().message;
    EXPECT_THAT(
        graph->check_elements({}, silent).error().message,
        HasSubstr("indices[" + std::to_string(edge) + "]: expected a node in [0, 1), found 1")
    );
  }
}

}  // namespace
}  // namespace gnn::graph
