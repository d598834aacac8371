#pragma once

#include "tests/support/must.h"
#include "tests/worker/sampling/random_graph.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/device/device_sampler.h"
#include "worker/sampling/neighbor.h"
#include "worker/sampling/subgraph.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::sampling::device {

/// What a sampler is made of.
struct SamplerCase {
  std::string name;
  NeighborSamplerOptions options;
  std::vector<int64_t> num_nodes;
  std::vector<Relation> relations;
  std::vector<at::Tensor> seeds;
  std::vector<ExcludedEdges> excluded = {};
};

inline Relation random_relation(
    const std::vector<int64_t>& num_nodes, int source, int destination, at::ScalarType index_type
) {
  const int64_t sources = num_nodes[static_cast<size_t>(source)];
  const int64_t destinations = num_nodes[static_cast<size_t>(destination)];
  const RandomGraph edges(
      destinations, sources, 4, static_cast<uint64_t>(10 * source + destination)
  );
  return {
      .graph = testing::must(graph::CscGraph::create(
          at::tensor(edges.indptr, at::kLong),
          at::tensor(edges.indices, at::kLong).to(index_type),
          sources,
          at::arange(static_cast<int64_t>(edges.indices.size())).mul(3)
      )),
      .source_type = source,
      .destination_type = destination
  };
}

/// Half of each list.
inline at::Tensor half_of(const graph::CscGraph& graph) {
  const at::Tensor begins = graph.indptr().slice(0, 0, -1);
  return begins.add(graph.indptr().slice(0, 1).sub(begins).floor_divide(2)).contiguous();
}

/// One node type or three; both types of indices, both rules, lists that are seen in part, lanes and
/// fan-outs of their own, with and without replacement, all neighbours, edge ids and excluded edges.
inline std::vector<SamplerCase> sampler_cases() {
  SamplerCase one{
      .name = "one type",
      .options = {.fanout = {4, 3}},
      .num_nodes = {120},
      .relations = {random_relation({120}, 0, 0, at::kInt)},
      .seeds = {at::tensor({5, 60, 10, 3, 119}, at::kLong)}
  };
  const std::vector<int64_t> num_nodes{80, 60, 40};
  SamplerCase typed{
      .name = "three types",
      .options = {.fanout = {3, 2}, .num_edge_types = 7},
      .num_nodes = num_nodes,
      .relations =
          {random_relation(num_nodes, 0, 1, at::kInt),
           random_relation(num_nodes, 1, 0, at::kLong),
           random_relation(num_nodes, 2, 1, at::kInt)},
      .seeds = {at::tensor({1, 7, 70}, at::kLong), at::tensor({59, 10}, at::kLong), {}}
  };
  typed.relations[0].ends = half_of(typed.relations[0].graph);
  typed.relations[1].fanout = {2, 5};
  for (int64_t i = 0; i < 3; ++i) typed.relations[static_cast<size_t>(i)].lane = 6 - 2 * i;

  // Of a seed with many edges, most.
  const graph::CscGraph& forward = typed.relations[0].graph;
  const auto first = forward.indptr()[10].item<int64_t>();
  typed.excluded = {
      {.relation = 0,
       .sources = forward.indices().slice(0, first, first + 100).to(at::kLong),
       .destinations = at::full({100}, 10, at::kLong)}
  };

  std::vector<SamplerCase> cases;
  for (const SamplerCase& each : {one, typed}) {
    for (const SamplingRule rule : {SamplingRule::NewNodes, SamplingRule::AllSeen}) {
      SamplerCase ruled = each;
      ruled.name += rule == SamplingRule::NewNodes ? ", new nodes" : ", all seen";
      ruled.options.rule = rule;
      cases.push_back(ruled);
      ruled.name += ", all neighbours, then draws with replacement";
      ruled.options.fanout = {-1, 2};
      ruled.options.replace = true;
      ruled.options.with_edge_ids = true;
      cases.push_back(ruled);
    }
  }
  return cases;
}

inline void expect_equal(const at::Tensor& found, const at::Tensor& wanted) {
  ASSERT_EQ(found.defined(), wanted.defined());
  if (!wanted.defined()) return;
  EXPECT_EQ(found.scalar_type(), wanted.scalar_type());
  EXPECT_TRUE(found.cpu().equal(wanted));
}

/// All that a subgraph has; the one that is wanted is on the CPU.
inline void expect_equal(const SampledSubgraph& found, const SampledSubgraph& wanted) {
  EXPECT_EQ(found.num_seeds, wanted.num_seeds);
  EXPECT_EQ(found.nodes_per_hop, wanted.nodes_per_hop);
  EXPECT_EQ(found.edges_per_hop, wanted.edges_per_hop);
  ASSERT_EQ(found.node_ids.size(), wanted.node_ids.size());
  for (size_t type = 0; type < wanted.node_ids.size(); ++type)
    expect_equal(found.node_ids[type], wanted.node_ids[type]);
  ASSERT_EQ(found.blocks.size(), wanted.blocks.size());
  for (size_t layer = 0; layer < wanted.blocks.size(); ++layer) {
    ASSERT_EQ(found.blocks[layer].size(), wanted.blocks[layer].size());
    for (size_t type = 0; type < wanted.blocks[layer].size(); ++type) {
      SCOPED_TRACE("layer " + std::to_string(layer) + ", edge type " + std::to_string(type));
      const graph::Block& there = found.blocks[layer][type];
      const graph::Block& here = wanted.blocks[layer][type];
      EXPECT_EQ(there.num_sources, here.num_sources);
      EXPECT_EQ(there.num_destinations, here.num_destinations);
      expect_equal(there.indptr, here.indptr);
      expect_equal(there.indices, here.indices);
      expect_equal(there.edge_ids, here.edge_ids);
    }
  }
}

inline SampleRequest request_of(const SamplerCase& each, uint64_t batch) {
  return {
      .seeds = each.seeds,
      .position = {.seed = 3, .epoch = 1, .batch = batch},
      .excluded = each.excluded
  };
}

inline SampledSubgraph by_the_cpu(const SamplerCase& each, uint64_t batch) {
  const NeighborSampler sampler =
      testing::must(NeighborSampler::create(each.options, each.num_nodes, each.relations));
  const SampleRequest request = request_of(each, batch);
  return testing::must(sampler.sample(request.seeds, request.position, request.excluded));
}

inline std::shared_ptr<DeviceSampler> device_sampler(
    const SamplerCase& each, std::shared_ptr<SamplingDevice> device, size_t in_flight
) {
  return testing::must(DeviceSampler::create(
      each.options,
      each.num_nodes,
      each.relations,
      std::make_shared<DeviceGraph>(std::move(device)),
      {.in_flight = in_flight}
  ));
}

}  // namespace gnn::sampling::device
