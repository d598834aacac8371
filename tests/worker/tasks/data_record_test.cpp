#include "worker/tasks/data_record.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

using ::testing::ElementsAre;

// Node v has v in-edges, all from node 0, and the label v % 3 but for node 5, which has none.
graph::Dataset rising_degrees(int64_t num_nodes) {
  const at::Tensor degrees = at::arange(num_nodes);
  const at::Tensor indptr = at::cat({at::zeros({1}, at::kLong), degrees.cumsum(0)});
  const at::Tensor labels = at::arange(num_nodes) % 3;
  labels[5] = -1;
  graph::NodeTypeData nodes;
  nodes.name = "node";
  nodes.num_nodes = num_nodes;
  nodes.labels = labels;
  graph::EdgeTypeData edges{
      .source = "node",
      .relation = "to",
      .destination = "node",
      .graph = graph::CscGraph::create(
                   indptr, at::zeros({degrees.sum().item<int64_t>()}, at::kInt), num_nodes
      )
                   .value(),
      .features = {},
  };
  graph::Dataset dataset;
  dataset.name = "rising";
  dataset.num_classes = 3;
  dataset.node_types.push_back(std::move(nodes));
  dataset.edge_types.push_back(std::move(edges));
  return dataset;
}

TEST(DataRecord, CountsDegreesByPowersOfTwoAndLabelsByClass) {
  const report::DataRecord record = data_record_of(rising_degrees(9));
  ASSERT_EQ(record.degrees.size(), 1U);
  EXPECT_EQ(record.degrees[0].edge_type, "(node, to, node)");
  EXPECT_THAT(record.degrees[0].histogram.counts, ElementsAre(1, 1, 2, 4, 1));
  EXPECT_EQ(record.degrees[0].most, 8);
  EXPECT_THAT(record.labels->classes, ElementsAre(0, 1, 2));
  EXPECT_THAT(record.labels->counts, ElementsAre(3, 3, 2));
  EXPECT_EQ(record.labels->unlabelled, 1);
}

TEST(DataRecord, LooksAtABoundedNumberOfNodesFromAllPlaces) {
  const report::DataRecord record = data_record_of(rising_degrees(1000), std::nullopt, 10);
  const auto& counts = record.degrees[0].histogram.counts;
  EXPECT_EQ(record.degrees[0].nodes, 1000);
  EXPECT_EQ(record.degrees[0].looked, 10);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 10);
  EXPECT_EQ(record.labels->looked, 10);
}

}  // namespace
}  // namespace gnn::tasks
