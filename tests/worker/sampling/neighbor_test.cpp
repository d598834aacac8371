#include "worker/sampling/neighbor.h"

#include "tests/worker/sampling/random_graph.h"
#include "worker/sampling/sample_parts.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace gnn::sampling {
namespace {

at::Tensor ids(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong);
}

std::vector<int64_t> list(const at::Tensor& tensor) {
  const at::Tensor wide = tensor.to(at::kLong).contiguous();
  return {wide.const_data_ptr<int64_t>(), wide.const_data_ptr<int64_t>() + wide.numel()};
}

// Edges 1->0, 2->0, 2->1, 0->2; node 3 has none.
graph::CscGraph tiny() {
  return graph::CscGraph::create(
             ids({0, 2, 3, 4, 4}), ids({1, 2, 2, 0}).to(at::kInt), 4, ids({40, 41, 42, 43})
  )
      .value();
}

graph::CscGraph random_graph(
    int64_t num_destinations, int64_t num_sources, uint64_t seed, at::ScalarType type = at::kInt
) {
  const RandomGraph edges(num_destinations, num_sources, 8, seed);
  return graph::CscGraph::create(ids(edges.indptr), ids(edges.indices).to(type), num_sources)
      .value();
}

NeighborSamplerOptions options_of(
    std::vector<int64_t> fanout, SamplingRule rule = SamplingRule::NewNodes
) {
  NeighborSamplerOptions options;
  options.fanout = std::move(fanout);
  options.rule = rule;
  return options;
}

bool same(const SampledSubgraph& a, const SampledSubgraph& b) {
  bool equal = a.nodes_per_hop == b.nodes_per_hop && a.edges_per_hop == b.edges_per_hop;
  for (size_t i = 0; equal && i < a.node_ids.size(); ++i)
    equal = a.node_ids[i].equal(b.node_ids[i]);
  for (size_t layer = 0; equal && layer < a.blocks.size(); ++layer) {
    for (size_t type = 0; equal && type < a.blocks[layer].size(); ++type) {
      equal = a.blocks[layer][type].indptr.equal(b.blocks[layer][type].indptr) &&
              a.blocks[layer][type].indices.equal(b.blocks[layer][type].indices);
    }
  }
  return equal;
}

TEST(NeighborSampler, SharesEdgesBetweenLayersByTheNewNodesRule) {
  NeighborSamplerOptions options = options_of({5, 5});
  options.with_edge_ids = true;
  const auto sampler = NeighborSampler::create(options, tiny()).value();
  const SampledSubgraph sample = sampler.sample(ids({3, 0}), {}).value();

  EXPECT_EQ(sample.num_seeds, 2);
  EXPECT_EQ(list(sample.node_ids[0]), (std::vector<int64_t>{3, 0, 1, 2}));
  EXPECT_EQ(sample.nodes_per_hop[0], (std::vector<int64_t>{2, 2, 0}));
  EXPECT_EQ(sample.edges_per_hop[0], (std::vector<int64_t>{2, 2}));
  ASSERT_EQ(sample.blocks.size(), 2U);
  const graph::Block& input = sample.blocks[0][0];
  EXPECT_EQ(input.num_sources, 4);
  EXPECT_EQ(input.num_destinations, 4);
  EXPECT_EQ(list(input.indptr), (std::vector<int64_t>{0, 0, 2, 3, 4}));
  EXPECT_EQ(list(input.indices), (std::vector<int64_t>{2, 3, 3, 1}));
  EXPECT_EQ(list(input.edge_ids), (std::vector<int64_t>{40, 41, 42, 43}));
  const graph::Block& output = sample.blocks[1][0];
  EXPECT_EQ(output.num_sources, 4);
  EXPECT_EQ(output.num_destinations, 2);
  EXPECT_EQ(list(output.indptr), (std::vector<int64_t>{0, 0, 2}));
  EXPECT_EQ(list(output.indices), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(list(output.edge_ids), (std::vector<int64_t>{40, 41}));
  EXPECT_EQ(output.indices.scalar_type(), at::kInt);
}

TEST(NeighborSampler, GivesEachLayerItsOwnEdgesByTheAllSeenRule) {
  const auto sampler =
      NeighborSampler::create(options_of({5, 5}, SamplingRule::AllSeen), tiny()).value();
  const SampledSubgraph sample = sampler.sample(ids({3, 0}), {}).value();
  EXPECT_EQ(sample.edges_per_hop[0], (std::vector<int64_t>{2, 4}));
  const graph::Block& input = sample.blocks[0][0];
  EXPECT_EQ(list(input.indptr), (std::vector<int64_t>{0, 0, 2, 3, 4}));
  EXPECT_EQ(list(input.indices), (std::vector<int64_t>{2, 3, 3, 1}));
  EXPECT_FALSE(input.edge_ids.defined());
  const graph::Block& output = sample.blocks[1][0];
  EXPECT_EQ(list(output.indptr), (std::vector<int64_t>{0, 0, 2}));
  EXPECT_EQ(list(output.indices), (std::vector<int64_t>{2, 3}));
}

// Fan-outs run from the seeds outwards: 1 neighbour of the seed, then all of that one's.
TEST(NeighborSampler, TakesTheFirstFanoutNextToTheSeeds) {
  // 1..4 -> 0; 5..9 -> each of 1..4.
  std::vector<int64_t> indptr{0, 4, 9, 14, 19, 24, 24, 24, 24, 24, 24};
  std::vector<int64_t> indices{1, 2, 3, 4};
  for (int node = 1; node <= 4; ++node) indices.insert(indices.end(), {5, 6, 7, 8, 9});
  const auto graph = graph::CscGraph::create(ids(indptr), ids(indices), 10).value();
  const auto sampler = NeighborSampler::create(options_of({1, -1}), graph).value();
  const SampledSubgraph sample = sampler.sample(ids({0}), {}).value();
  EXPECT_EQ(sample.edges_per_hop[0], (std::vector<int64_t>{1, 5}));
  EXPECT_EQ(sample.nodes_per_hop[0], (std::vector<int64_t>{1, 1, 5}));
}

TEST(NeighborSampler, DrawsFanoutTimesWithReplacement) {
  NeighborSamplerOptions options = options_of({7});
  options.replace = true;
  const auto sampler = NeighborSampler::create(options, tiny()).value();
  const SampledSubgraph sample = sampler.sample(ids({3, 0, 1}), {}).value();
  EXPECT_EQ(list(sample.blocks[0][0].indptr), (std::vector<int64_t>{0, 0, 7, 14}));
}

TEST(NeighborSampler, ResultsOutliveTheSamplerAndLaterBatches) {
  const auto graph = random_graph(1000, 1000, 3);
  SampledSubgraph first;
  SampledSubgraph copy;
  {
    const auto sampler = NeighborSampler::create(options_of({5, 5}), graph).value();
    first = sampler.sample(ids({1, 2, 60}), {}).value();
    copy = first;
    for (at::Tensor& tensor : copy.node_ids) tensor = tensor.clone();
    for (auto& layer : copy.blocks) layer[0].indices = layer[0].indices.clone();
    for (uint64_t batch = 1; batch < 5; ++batch)
      ASSERT_TRUE(sampler.sample(ids({7, 8, 9}), {.batch = batch}));
  }
  EXPECT_TRUE(same(first, copy));
}

TEST(NeighborSampler, GivesTheSameBitsToOneTwoAndEightThreadsOfOneSampler) {
  const auto graph = random_graph(3000, 3000, 5);
  for (const SamplingRule rule : {SamplingRule::NewNodes, SamplingRule::AllSeen}) {
    const auto sampler = NeighborSampler::create(options_of({10, 5}, rule), graph).value();
    const auto sample_all = [&](int64_t num_threads) {
      std::vector<SampledSubgraph> samples(24);
      std::vector<std::thread> threads;
      for (int64_t thread = 0; thread < num_threads; ++thread) {
        threads.emplace_back([&, thread] {
          for (int64_t batch = thread; batch < 24; batch += num_threads) {
            const auto seeds = at::arange(batch * 100, batch * 100 + 100, at::kLong);
            samples[static_cast<size_t>(batch)] =
                sampler
                    .sample(seeds, {.seed = 1, .epoch = 2, .batch = static_cast<uint64_t>(batch)})
                    .value();
          }
        });
      }
      for (auto& thread : threads) thread.join();
      return samples;
    };
    const auto one = sample_all(1);
    for (const int64_t num_threads : {2, 8}) {
      const auto many = sample_all(num_threads);
      for (size_t batch = 0; batch < one.size(); ++batch)
        EXPECT_TRUE(same(one[batch], many[batch])) << num_threads;
    }
  }
}

TEST(NeighborSampler, IsIndependentOfIndexWidthAndMap) {
  const auto narrow = random_graph(2000, 2000, 6, at::kInt);
  const auto wide = random_graph(2000, 2000, 6, at::kLong);
  NeighborSamplerOptions options = options_of({10, 5});
  const auto seeds = at::arange(0, 200, at::kLong);
  const auto expected = NeighborSampler::create(options, narrow)->sample(seeds, {}).value();
  EXPECT_TRUE(same(NeighborSampler::create(options, wide)->sample(seeds, {}).value(), expected));
  options.sampler_memory_bytes = 0;
  EXPECT_TRUE(same(NeighborSampler::create(options, wide)->sample(seeds, {}).value(), expected));
}

// Users and items: the typed graph runs through the very code that serves the homogeneous one.
TEST(NeighborSampler, SamplesEachRelationOfATypedGraph) {
  const auto items_to_users = random_graph(300, 200, 1);
  const auto users_to_items = random_graph(200, 300, 2);
  const auto sampler = NeighborSampler::create(
                           options_of({4, 3}),
                           {300, 200},
                           {{.graph = items_to_users, .source_type = 1, .destination_type = 0},
                            {.graph = users_to_items, .source_type = 0, .destination_type = 1}}
  ).value();
  const SampledSubgraph sample = sampler.sample({ids({0, 1, 2}), at::Tensor()}, {}).value();
  ASSERT_EQ(sample.node_ids.size(), 2U);
  EXPECT_EQ(sample.num_seeds, 3);
  EXPECT_EQ(sample.nodes_per_hop[0][1], 0);  // users appear again in the second hop only
  EXPECT_EQ(sample.nodes_per_hop[1][0], 0);
  EXPECT_GT(sample.nodes_per_hop[1][1], 0);
  EXPECT_GT(sample.nodes_per_hop[0][2], 0);
  for (const auto& layer : sample.blocks) {
    for (size_t relation = 0; relation < 2; ++relation) {
      const graph::CscGraph& graph = relation == 0 ? items_to_users : users_to_items;
      const at::Tensor& sources = sample.node_ids[relation == 0 ? 1 : 0];
      const at::Tensor& destinations = sample.node_ids[relation == 0 ? 0 : 1];
      const auto indptr = list(layer[relation].indptr);
      const auto indices = list(layer[relation].indices);
      ASSERT_EQ(static_cast<int64_t>(indptr.size()), layer[relation].num_destinations + 1);
      for (size_t row = 0; row + 1 < indptr.size(); ++row) {
        const int64_t destination = destinations[static_cast<int64_t>(row)].item<int64_t>();
        const auto neighbours = list(graph.indices().slice(
            0,
            graph.indptr()[destination].item<int64_t>(),
            graph.indptr()[destination + 1].item<int64_t>()
        ));
        for (int64_t e = indptr[row]; e < indptr[row + 1]; ++e) {
          ASSERT_LT(indices[static_cast<size_t>(e)], layer[relation].num_sources);
          const int64_t source = sources[indices[static_cast<size_t>(e)]].item<int64_t>();
          EXPECT_NE(std::find(neighbours.begin(), neighbours.end(), source), neighbours.end());
        }
      }
    }
  }
}

TEST(NeighborSampler, NamesTheFirstBadSeed) {
  const auto sampler = NeighborSampler::create(options_of({5}), tiny()).value();
  const auto error = sampler.sample(ids({0, 4}), {}).error();
  EXPECT_EQ(error.kind, ErrorKind::Data);
  EXPECT_EQ(error.message, "seeds[1]: expected a node in [0, 4), found 4");
  EXPECT_EQ(
      sampler.sample(ids({-1}), {}).error().message, "seeds[0]: expected a node in [0, 4), found -1"
  );
  EXPECT_THROW((void)sampler.sample(at::tensor({1.0}), {}), c10::Error);
}

TEST(NeighborSampler, RefusesInvalidFanouts) {
  for (const std::vector<int64_t>& fanout : {std::vector<int64_t>{}, std::vector<int64_t>{5, -2}}) {
    const auto sampler = NeighborSampler::create(options_of(fanout), tiny());
    ASSERT_FALSE(sampler);
    EXPECT_EQ(sampler.error().kind, ErrorKind::Configuration);
    EXPECT_NE(sampler.error().message.find("sampling.fanout"), std::string::npos);
  }
}

TEST(NeighborSampler, TakesNoNeighborsWhereTheFanoutIsZero) {
  const auto sampler = NeighborSampler::create(options_of({0, 0}), tiny()).value();
  const SampledSubgraph alone = sampler.sample(ids({1, 0}), {}).value();
  EXPECT_EQ(list(alone.node_ids[0]), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(list(alone.blocks[0][0].indptr), (std::vector<int64_t>{0, 0, 0}));
}

TEST(NeighborSampler, RefusesGraphsThatDisagreeWithNodeCounts) {
  const auto bipartite = random_graph(300, 200, 1);
  EXPECT_EQ(NeighborSampler::create(options_of({5}), bipartite).error().kind, ErrorKind::Data);
  const auto sampler = NeighborSampler::create(options_of({5}), {300, 201}, {{bipartite, 1, 0}});
  EXPECT_EQ(
      sampler.error().message,
      "relation 0: expected 201 source and 300 destination nodes, found 200 and 300"
  );
  EXPECT_FALSE(NeighborSampler::create(options_of({5}), {300, 200}, {{bipartite, 2, 0}}));
}

TEST(NeighborSampler, NamesWhatIsWrongWithARelation) {
  const auto error_of = [](std::vector<Relation> relations) {
    return NeighborSampler::create(options_of({5, 5}), {4}, std::move(relations)).error().message;
  };
  EXPECT_EQ(
      error_of({{.graph = tiny(), .ends = ids({2, 3, 4})}}),
      "relation 0: expected 4 ends of neighbour lists, found 3"
  );
  EXPECT_EQ(
      error_of({{.graph = tiny(), .ends = ids({2, 3, 5, 4})}}),
      "relation 0: ends[2]: expected a position in [3, 4], found 5"
  );
  EXPECT_EQ(
      error_of({{.graph = tiny(), .lane = 1}, {.graph = tiny()}}),
      "relation 1: another one has edge type 1 too"
  );
  EXPECT_EQ(
      error_of({{.graph = tiny(), .fanout = {3}}}),
      "sampling.fanoutByEdgeType: relation 0: expected as many hops as sampling.fanout has, 2, "
      "found 1"
  );
  EXPECT_EQ(
      error_of({{.graph = tiny(), .fanout = {3, -2}}}),
      "sampling.fanoutByEdgeType: relation 0[1]: expected a number of neighbours or -1 for all, "
      "found -2"
  );
}

TEST(CheckEnds, LooksAtTheGivenListsAloneAndNamesTheFirstThatEndsOutsideOfItself) {
  const at::Tensor indptr = ids({0, 2, 3, 4});
  const auto check = [&](const at::Tensor& ends, const data::IdRange& lists) {
    return check_ends(indptr, ends, lists, "here: ");
  };
  EXPECT_TRUE(check(ids({0, 3, 4}), {0, 3}));
  EXPECT_TRUE(check({}, {0, 3})) << "all is visible";
  const at::Tensor outside = ids({3, 2, 2});
  EXPECT_TRUE(check(outside, {1, 2}));
  EXPECT_EQ(
      check(outside, {0, 3}).error().message,
      "here: ends[0]: expected a position in [0, 2], found 3"
  );
  const Status below = check(outside, {1, 3});
  EXPECT_EQ(below.error().kind, ErrorKind::Data);
  EXPECT_EQ(below.error().message, "here: ends[2]: expected a position in [3, 4], found 2");
  EXPECT_EQ(
      check(ids({2, 3}), {0, 1}).error().message,
      "here: expected 3 ends of neighbour lists, found 2"
  );
  EXPECT_THROW((void)check(at::tensor({2.0, 3.0, 4.0}), {0, 3}), c10::Error);
}

TEST(NeighborSampler, LeavesOutExcludedEdgesAndWhatLiesBehindTheEnds) {
  NeighborSamplerOptions options = options_of({5, 5});
  options.with_edge_ids = true;
  const auto sampler =
      NeighborSampler::create(options, {4}, {{.graph = tiny(), .ends = ids({1, 3, 4, 4})}}).value();
  const SampledSubgraph visible = sampler.sample({ids({0, 2})}, {}).value();
  EXPECT_EQ(list(visible.blocks[0][0].edge_ids), (std::vector<int64_t>{40, 43, 42}));
  const SampledSubgraph left =
      sampler.sample({ids({0, 2})}, {}, {{0, ids({0, 3}), ids({2, 2})}}).value();
  EXPECT_EQ(list(left.blocks[0][0].edge_ids), (std::vector<int64_t>{40, 42}));
  EXPECT_EQ(list(left.blocks[1][0].indptr), (std::vector<int64_t>{0, 1, 1}));
  EXPECT_THROW((void)sampler.sample({ids({0})}, {}, {{1, ids({0}), ids({2})}}), c10::Error);
  EXPECT_THROW((void)sampler.sample({ids({0})}, {}, {{0, ids({0}), ids({2, 2})}}), c10::Error);
}

TEST(NeighborSampler, GivesARelationItsOwnFanoutAndLane) {
  const auto graph = random_graph(500, 500, 4);
  const auto draw = [&](std::vector<Relation> relations) {
    const auto sampler =
        NeighborSampler::create(options_of({3}), {500}, std::move(relations)).value();
    return sampler.sample({ids({10, 60, 110})}, {}).value().blocks[0];
  };
  const auto both = draw({{.graph = graph}, {.graph = graph, .fanout = {7}}});
  EXPECT_EQ(list(both[0].indptr), (std::vector<int64_t>{0, 3, 6, 9}));
  EXPECT_EQ(list(both[1].indptr), (std::vector<int64_t>{0, 7, 14, 21}));
  const auto edges = [](const graph::Block& block) { return list(block.indices); };
  const auto second = draw({{.graph = graph, .lane = 1}});
  const auto first = draw({{.graph = graph}});
  EXPECT_EQ(edges(first[0]), edges(both[0]));
  EXPECT_NE(edges(second[0]), edges(first[0]));
}

TEST(NeighborSampler, ListsBlocksByEdgeTypeIfItIsToldHowManyThereAre) {
  NeighborSamplerOptions options = options_of({5, 5});
  options.num_edge_types = 3;
  const auto sampler =
      NeighborSampler::create(options, {4}, {{.graph = tiny(), .lane = 1}}).value();
  const SampledSubgraph sample = sampler.sample(ids({3, 0}), {}).value();
  EXPECT_EQ(sample.edges_per_hop, (std::vector<std::vector<int64_t>>{{0, 0}, {2, 2}, {0, 0}}));
  for (const auto& layer : sample.blocks) {
    ASSERT_EQ(layer.size(), 3U);
    EXPECT_FALSE(layer[0].indptr.defined());
    EXPECT_TRUE(layer[1].indptr.defined());
    EXPECT_FALSE(layer[2].indices.defined());
  }
  EXPECT_EQ(list(sample.blocks[1][1].indices), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(
      NeighborSampler::create(options, {4}, {{.graph = tiny(), .lane = 3}}).error().message,
      "relation 0: expected an edge type below 3, found 3"
  );
}

TEST(NeighborSampler, SamplesAGraphWithoutEdgesAndABatchWithoutSeeds) {
  const auto graph = graph::CscGraph::create(ids({0, 0, 0}), at::empty({0}, at::kInt), 2).value();
  const auto sampler = NeighborSampler::create(options_of({5, 5}), graph).value();
  const SampledSubgraph isolated = sampler.sample(ids({1, 0}), {}).value();
  EXPECT_EQ(list(isolated.node_ids[0]), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(list(isolated.blocks[0][0].indptr), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(isolated.blocks[0][0].indices.numel(), 0);
  const SampledSubgraph none = sampler.sample(at::empty({0}, at::kLong), {}).value();
  EXPECT_EQ(none.num_seeds, 0);
  EXPECT_EQ(list(none.blocks[1][0].indptr), (std::vector<int64_t>{0}));
}

TEST(NeighborSampler, KeepsItsStateWithinSamplerMemory) {
  const auto graph = random_graph(3000, 3000, 5);
  NeighborSamplerOptions options = options_of({10, 5});
  const auto sampler = NeighborSampler::create(options, graph).value();
  EXPECT_EQ(sampler.state_bytes_per_thread(), 0);
  ASSERT_TRUE(sampler.sample(ids({1}), {}));
  EXPECT_GE(sampler.state_bytes_per_thread(), 4 * 3000);
  EXPECT_LE(sampler.state_bytes_per_thread(), options.sampler_memory_bytes);
}

}  // namespace
}  // namespace gnn::sampling
