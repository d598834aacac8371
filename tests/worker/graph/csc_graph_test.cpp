#include "worker/graph/csc_graph.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace gnn::graph
