#include "worker/tasks/part_inputs.h"

#include "tests/worker/shards/parts.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>

namespace gnn::tasks {
namespace {

TEST(WithOwnLists, KeepsTheEdgeIdsThatTheWholeDataSetHas) {
  const shards::Shop shop(3);
  graph::Dataset dataset = shop.whole();
  for (const bool by_position : {false, true}) {
    for (graph::EdgeTypeData& type : dataset.edge_types) {
      if (!by_position) continue;
      type.graph = graph::CscGraph::create(
                       type.graph.indptr(), type.graph.indices(), type.graph.num_sources()
      )
                       .value();
    }
    const auto part = shards::Part::create(dataset, {.part = 1}).value();
    const graph::Dataset own = with_own_lists(dataset, *part).value();
    for (size_t i = 0; i < dataset.edge_types.size(); ++i) {
      const graph::CscGraph& whole = dataset.edge_types[i].graph;
      const graph::CscGraph& found = own.edge_types[i].graph;
      const data::IdRange nodes = part->own(dataset.edge_types[i].destination_index);
      ASSERT_EQ(found.num_destinations(), nodes.size());
      const auto begin = whole.indptr()[nodes.begin].item<int64_t>();
      const auto end = whole.indptr()[nodes.end].item<int64_t>();
      ASSERT_GT(begin, 0);
      EXPECT_TRUE(found.indices().equal(whole.indices().slice(0, begin, end)));
      EXPECT_TRUE(found.edge_ids().equal(
          by_position ? at::arange(begin, end) : whole.edge_ids().slice(0, begin, end)
      ));
    }
  }
}

}  // namespace
}  // namespace gnn::tasks
