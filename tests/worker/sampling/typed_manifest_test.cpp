#include "tests/worker/data/files.h"
#include "tests/worker/graph/load_native.h"
#include "worker/data/native.h"
#include "worker/sampling/neighbor.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gnn::sampling {
namespace {

using data::Array;
using data::DatasetArrays;
using data::testing::TemporaryFolder;

// A data set on disk: users who bought items, items that are alike. Both come back through the
// same reader and the same sampler as a homogeneous set does.
class TypedManifest : public ::testing::Test {
 protected:
  TypedManifest() : writer_(*data::NativeWriter::open(folder_.path("set"), "key")) {}

  Array ids(const std::string& name, const std::vector<int64_t>& values) {
    Array array = *writer_->create(name, data::DType::Int64, {static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), array.mutable_view<int64_t>().begin());
    return *writer_->commit(std::move(array));
  }
  void add_relation(
      DatasetArrays& arrays,
      const std::string& source,
      const std::string& destination,
      const std::vector<int64_t>& indptr,
      const std::vector<int64_t>& indices
  ) {
    const std::string name = source + ".to." + destination;
    arrays.edge_tables.push_back(
        {.source = source,
         .relation = "to",
         .destination = destination,
         .indptr = ids(name + ".indptr", indptr),
         .indices = ids(name + ".indices", indices),
         .edge_ids = {},
         .features = {}}
    );
  }
  graph::Dataset publish_and_load(const DatasetArrays& arrays) {
    EXPECT_TRUE(writer_->publish(arrays, false));
    return *graph::testing::load_native(folder_.path("set"));
  }
  // All edges around `seeds` of the target type, by global ids, for each relation.
  static std::vector<std::set<std::pair<int64_t, int64_t>>> sample_all(
      const graph::Dataset& dataset, int64_t hops, const at::Tensor& seeds
  ) {
    std::vector<int64_t> num_nodes;
    for (const graph::NodeTypeData& type : dataset.node_types) {
      num_nodes.push_back(type.num_nodes);
    }
    std::vector<Relation> relations;
    for (const graph::EdgeTypeData& type : dataset.edge_types) {
      relations.push_back(
          {.graph = type.graph,
           .source_type = type.source_index,
           .destination_type = type.destination_index}
      );
    }
    NeighborSamplerOptions options;
    options.fanout.assign(static_cast<size_t>(hops), -1);
    const auto sampler = NeighborSampler::create(options, num_nodes, relations);
    std::vector<at::Tensor> typed_seeds(dataset.node_types.size());
    typed_seeds[static_cast<size_t>(dataset.target_node_type)] = seeds;
    const auto subgraph = sampler->sample(typed_seeds, core::StreamPosition{});
    std::vector<std::set<std::pair<int64_t, int64_t>>> edges(relations.size());
    for (const std::vector<graph::Block>& layer : subgraph->blocks) {
      for (size_t type = 0; type < layer.size(); ++type) {
        const at::Tensor& sources =
            subgraph->node_ids[static_cast<size_t>(relations[type].source_type)];
        const at::Tensor& destinations =
            subgraph->node_ids[static_cast<size_t>(relations[type].destination_type)];
        const graph::Block& block = layer[type];
        for (int64_t row = 0; row < block.num_destinations; ++row) {
          const auto begin = block.indptr[row].item<int64_t>();
          const auto end = block.indptr[row + 1].item<int64_t>();
          for (int64_t edge = begin; edge < end; ++edge) {
            const auto source = block.indices[edge].item<int64_t>();
            edges[type].emplace(sources[source].item<int64_t>(), destinations[row].item<int64_t>());
          }
        }
      }
    }
    return edges;
  }

  TemporaryFolder folder_;
  std::unique_ptr<data::NativeWriter> writer_;
};

using Edges = std::set<std::pair<int64_t, int64_t>>;

TEST_F(TypedManifest, SamplesEachRelationOfTwoTypes) {
  DatasetArrays shop;
  shop.name = "shop";
  shop.target_node_type = "user";
  shop.num_classes = 2;
  shop.node_tables.push_back(
      {.name = "user", .num_nodes = 3, .features = {}, .labels = ids("labels", {0, 1, 0})}
  );
  shop.node_tables.push_back({.name = "item", .num_nodes = 4, .features = {}, .labels = {}});
  // user 0 bought item 1, user 2 bought items 0 and 3; 1 is like 2, 0 like 3, 3 like 0.
  add_relation(shop, "item", "user", {0, 1, 1, 3}, {1, 0, 3});
  add_relation(shop, "item", "item", {0, 1, 2, 2, 3}, {3, 2, 0});
  const graph::Dataset dataset = publish_and_load(shop);

  const at::Tensor seeds = at::tensor({0}, at::kLong);
  const auto one_hop = sample_all(dataset, 1, seeds);
  EXPECT_EQ(one_hop[0], (Edges{{1, 0}}));
  EXPECT_EQ(one_hop[1], Edges{});
  const auto two_hops = sample_all(dataset, 2, seeds);
  EXPECT_EQ(two_hops[0], (Edges{{1, 0}}));
  EXPECT_EQ(two_hops[1], (Edges{{2, 1}}));
  const auto all = sample_all(dataset, 3, at::tensor({2, 1}, at::kLong));
  EXPECT_EQ(all[0], (Edges{{0, 2}, {3, 2}}));
  EXPECT_EQ(all[1], (Edges{{3, 0}, {0, 3}}));
}

TEST_F(TypedManifest, TreatsAHomogeneousSetAsOneOfEachType) {
  DatasetArrays path;
  path.name = "path";
  path.target_node_type = "node";
  path.num_classes = 1;
  path.node_tables.push_back({.name = "node", .num_nodes = 4, .features = {}, .labels = {}});
  add_relation(path, "node", "node", {0, 0, 1, 2, 3}, {0, 1, 2});
  const graph::Dataset dataset = publish_and_load(path);
  EXPECT_EQ(sample_all(dataset, 2, at::tensor({3}, at::kLong))[0], (Edges{{2, 3}, {1, 2}}));
}

}  // namespace
}  // namespace gnn::sampling
