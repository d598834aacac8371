#include "worker/loader/graph_batch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <vector>

namespace gnn::loader {
namespace {

// Three graphs: a path 0→1→2, a lone node, and a pair that point at each other. One class per
// graph.
graph::Dataset three_graphs(at::ScalarType index_type) {
  graph::Dataset dataset;
  dataset.name = "three";
  dataset.num_classes = 3;
  dataset.node_types.push_back(
      {.name = "node", .num_nodes = 6, .features = std::nullopt, .labels = {}}
  );
  const at::Tensor indptr = torch::tensor({0, 0, 1, 2, 2, 3, 4}, at::kLong);
  const at::Tensor indices = torch::tensor({0, 1, 5, 4}, at::kLong).to(index_type);
  auto graph = graph::CscGraph::create(indptr, indices, 6);
  EXPECT_TRUE(graph.has_value());
  dataset.edge_types.push_back(graph::EdgeTypeData{
      .source = "node",
      .relation = "to",
      .destination = "node",
      .graph = *graph,
      .features = std::nullopt
  });
  dataset.graphs = graph::GraphCollection{
      .node_offsets = torch::tensor({0, 3, 4, 6}, at::kLong),
      .labels = torch::tensor({2, 0, 1}, at::kLong)
  };
  return dataset;
}

std::vector<int64_t> values(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kLong).contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

class GraphBatchTest : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(GraphBatchTest, JoinsGraphsIntoOneBlockDiagonalGraph) {
  const graph::Dataset dataset = three_graphs(GetParam());
  const GraphBatch batch = batch_graphs(dataset, std::vector<int64_t>{2, 0, 2});
  EXPECT_EQ(values(batch.labels), (std::vector<int64_t>{1, 2, 1}));
  EXPECT_EQ(values(batch.node_offsets), (std::vector<int64_t>{0, 2, 5, 7}));
  EXPECT_EQ(values(batch.node_ids), (std::vector<int64_t>{4, 5, 0, 1, 2, 4, 5}));
  EXPECT_EQ(batch.block.num_sources, 7);
  EXPECT_EQ(batch.block.num_destinations, 7);
  EXPECT_EQ(values(batch.block.indptr), (std::vector<int64_t>{0, 1, 2, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values(batch.block.indices), (std::vector<int64_t>{1, 0, 2, 3, 6, 5}));
}

TEST_P(GraphBatchTest, KeepsGraphsWithoutEdges) {
  const GraphBatch batch = batch_graphs(three_graphs(GetParam()), std::vector<int64_t>{1});
  EXPECT_EQ(batch.block.num_sources, 1);
  EXPECT_EQ(values(batch.block.indptr), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(batch.block.indices.numel(), 0);
}

TEST_P(GraphBatchTest, RefusesIdsOutsideTheCollection) {
  EXPECT_THROW(batch_graphs(three_graphs(GetParam()), std::vector<int64_t>{3}), c10::Error);
  EXPECT_THROW(batch_graphs(three_graphs(GetParam()), std::vector<int64_t>{-1}), c10::Error);
}

INSTANTIATE_TEST_SUITE_P(IndexTypes, GraphBatchTest, ::testing::Values(at::kInt, at::kLong));

}  // namespace
}  // namespace gnn::loader
