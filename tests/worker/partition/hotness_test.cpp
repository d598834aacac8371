#include "worker/partition/hotness.h"

#include "tests/worker/partition/sets.h"
#include "worker/partition/seeds.h"
#include "worker/sampling/core/neighbor_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

namespace gnn::partition {
namespace {

using data::HopRule;
using testing::community_set;
using testing::link_set;
using testing::SetOptions;

// The lists of one edge type, by destination.
struct Graph {
  explicit Graph(const std::vector<std::vector<int32_t>>& lists) {
    for (const std::vector<int32_t>& list : lists) {
      indices.insert(indices.end(), list.begin(), list.end());
      indptr.push_back(static_cast<int64_t>(indices.size()));
    }
  }
  [[nodiscard]] HotnessEdges edges(
      size_t source, size_t destination, std::span<const int64_t> fanout
  ) const {
    return {
        .source = source,
        .destination = destination,
        .indptr = indptr,
        .indices = std::span<const int32_t>(indices),
        .fanout = fanout
    };
  }

  std::vector<int64_t> indptr{0};
  std::vector<int32_t> indices;
};

// 0 reads 1 to 4, 1 reads 5 and 6, 5 reads 7, and nobody reads 8, whose list holds 0.
const Graph& tree() {
  static const Graph kTree({{1, 2, 3, 4}, {5, 6}, {}, {}, {}, {7}, {}, {}, {0}});
  return kTree;
}

std::vector<double> hotness_in_tree(
    const std::vector<int64_t>& fanout, bool replace, HopRule rule, double seed
) {
  ThreadPool none(0);
  std::vector<double> seeds(9);
  seeds[0] = seed;
  return hotness(
      {.num_nodes = {9}, .edges = {tree().edges(0, 0, fanout)}, .replace = replace, .rule = rule},
      {seeds},
      none
  )[0];
}

void expect_near(const std::vector<double>& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-14) << i;
}

TEST(Hotness, IsExactWhereOnePathLeadsToEachNodeByEachEdgeTypesFanout) {
  const double seed = 0.3;
  // A seed reads its own list, not those that hold it: 8 stays cold.
  expect_near(
      hotness_in_tree({1, 1, 1}, false, HopRule::NewNodes, seed),
      {seed, seed / 4, seed / 4, seed / 4, seed / 4, seed / 8, seed / 8, seed / 8, 0}
  );
  expect_near(
      hotness_in_tree({-1, 1, 0}, false, HopRule::NewNodes, seed),
      {seed, seed, seed, seed, seed, seed / 2, seed / 2, 0, 0}
  );
  // More draws than neighbours take all of them once.
  expect_near(
      hotness_in_tree({3, 9}, false, HopRule::NewNodes, seed),
      {seed, seed * 0.75, seed * 0.75, seed * 0.75, seed * 0.75, seed * 0.75, seed * 0.75, 0, 0}
  );
  const double drawn = 1 - std::pow(0.75, 3);
  expect_near(
      hotness_in_tree({3, -1}, true, HopRule::NewNodes, seed),
      {seed,
       seed * drawn,
       seed * drawn,
       seed * drawn,
       seed * drawn,
       seed * drawn,
       seed * drawn,
       0,
       0}
  );
  // By the rule AllSeen, a seed that is always there draws anew in each hop.
  const double twice = 1 - 0.75 * 0.75;
  expect_near(
      hotness_in_tree({1, 1}, false, HopRule::AllSeen, 1),
      {1, twice, twice, twice, twice, 0.125, 0.125, 0, 0}
  );
  // One that may be there draws anew in each hop, if it is there.
  const double drawn_twice = seed * twice;
  expect_near(
      hotness_in_tree({1, 1}, false, HopRule::AllSeen, seed),
      {seed, drawn_twice, drawn_twice, drawn_twice, drawn_twice, seed / 8, seed / 8, 0, 0}
  );
  // Certainty does not spoil the sums.
  expect_near(
      hotness_in_tree({-1, -1, -1}, false, HopRule::NewNodes, 1), {1, 1, 1, 1, 1, 1, 1, 1, 0}
  );

  // Each edge type with its fan-out: items read users, users read items; seeds are items.
  const Graph of_items({{0, 1}, {2}});
  const Graph of_users({{0}, {1}, {}});
  const std::vector<int64_t> to_users{1, 0};
  const std::vector<int64_t> to_items{0, -1};
  ThreadPool none(0);
  const auto found = hotness(
      {.num_nodes = {3, 2},
       .edges = {of_items.edges(0, 1, to_users), of_users.edges(1, 0, to_items)}},
      {{}, {0.5, 0}},
      none
  );
  expect_near(found[0], {0.25, 0.25, 0});
  expect_near(found[1], {1 - 0.5 * 0.75, 0.25});

  // Lists that batches see only a part of, those of some nodes alone: 0 reads 1 and 2, and 1 nobody.
  const std::vector<int64_t> ends{2, 4};
  const std::vector<int64_t> one_each{1, 1};
  HotnessEdges some = tree().edges(0, 0, one_each);
  some.indptr = some.indptr.first(3);
  some.ends = ends;
  expect_near(
      hotness({.num_nodes = {9}, .edges = {some}}, {{seed, 0, 0, 0, 0, 0, 0, 0, 0}}, none)[0],
      {seed, seed / 2, seed / 2, 0, 0, 0, 0, 0, 0}
  );
  some = tree().edges(0, 0, one_each);
  some.first = 1;
  some.indptr = std::span(some.indptr).subspan(1, 1 + 5);
  expect_near(
      hotness({.num_nodes = {9}, .edges = {some}}, {{seed, seed, 0, 0, 0, 0, 0, 0, 0}}, none)[0],
      {seed, seed, 0, 0, 0, seed / 2, seed / 2, seed / 2, 0}
  );
}

// How often batches of the sampler itself read each node, by node type.
class Batches {
 public:
  Batches(const data::DatasetArrays& set, const data::BatchDraws& draws) {
    std::vector<int64_t> num_nodes;
    for (const data::NodeTable& table : set.node_tables) num_nodes.push_back(table.num_nodes);
    std::vector<sampling::core::RelationView> relations;
    const HotnessInput input = hotness_input(set, draws);
    for (size_t i = 0; i < input.edges.size(); ++i) {
      const HotnessEdges& edges = input.edges[i];
      relations.push_back(
          {.indptr = edges.indptr.data(),
           .indices32 = std::get<std::span<const int32_t>>(edges.indices).data(),
           .source_type = static_cast<int>(edges.source),
           .destination_type = static_cast<int>(edges.destination),
           .lane = static_cast<uint32_t>(i),
           .fanout = draws.fanouts[i]}
      );
    }
    kernel_.emplace(
        num_nodes,
        relations,
        sampling::core::KernelOptions{
            .fanout = draws.fanouts[0],
            .replace = draws.replace,
            .rule = draws.rule == HopRule::AllSeen ? sampling::core::SamplingRule::AllSeen
                                                   : sampling::core::SamplingRule::NewNodes
        }
    );
    for (const int64_t nodes : num_nodes) reads_.emplace_back(static_cast<size_t>(nodes));
  }

  void sample(const std::vector<std::vector<int64_t>>& seeds, uint64_t batch) {
    const std::vector<std::span<const int64_t>> spans(seeds.begin(), seeds.end());
    kernel_->sample(spans, {.seed = 5, .epoch = 0, .batch = batch}, arena_);
    for (size_t type = 0; type < reads_.size(); ++type) {
      const auto& list = arena_.nodes[type];
      for (int64_t i = 0; i < list.up_to.back(); ++i) {
        reads_[type][static_cast<size_t>(list.ids.data()[i])] += 1;
      }
    }
  }

  [[nodiscard]] const std::vector<std::vector<double>>& reads() const { return reads_; }

 private:
  std::optional<sampling::core::NeighborKernel> kernel_;
  sampling::core::SampleArena arena_;
  std::vector<std::vector<double>> reads_;
};

// The reads of the tenth of all nodes that `order` puts first.
double reads_of_tenth(const std::vector<double>& reads, const std::vector<double>& order) {
  std::vector<size_t> nodes(reads.size());
  std::iota(nodes.begin(), nodes.end(), 0U);
  std::stable_sort(nodes.begin(), nodes.end(), [&](size_t a, size_t b) {
    return order[a] > order[b];
  });
  double sum = 0;
  for (size_t i = 0; i < nodes.size() / 10; ++i) sum += reads[nodes[i]];
  return sum;
}

TEST(Hotness, FindsTheRowsThatTheSamplersBatchesReadMostWithTheSameBitsForAnyNumberOfThreads) {
  const data::DatasetArrays set = community_set({.nodes = 3000, .communities = 30, .degree = 8});
  // The seeds of one part: those of a third of the communities.
  std::vector<int64_t> seeds;
  for (int64_t node = 0; node < 3000; ++node) {
    if (node % 30 < 10 && node % 7 == 0) seeds.push_back(node);
  }
  for (const HopRule rule : {HopRule::NewNodes, HopRule::AllSeen}) {
    for (const bool replace : {false, true}) {
      const data::BatchDraws draws{
          .fanouts = {{5, 3}}, .batch_size = 16, .replace = replace, .rule = rule
      };
      ThreadPool others(1);
      const std::vector<double> found =
          hotness(hotness_input(set, draws), {node_seed_probabilities(seeds, 3000, 16)}, others)[0];
      Batches batches(set, draws);
      const data::CounterRandom random(9, 9);
      constexpr uint64_t kBatches = 4000;
      for (uint64_t batch = 0; batch < kBatches; ++batch) {
        std::vector<int64_t> drawn = seeds;
        for (size_t i = 0; i < 16; ++i) {
          const auto left = static_cast<int64_t>(drawn.size() - i);
          std::swap(drawn[i], drawn[i + static_cast<size_t>(random.below(batch * 16 + i, left))]);
        }
        drawn.resize(16);
        batches.sample({drawn}, batch);
      }
      const std::vector<double>& reads = batches.reads()[0];
      EXPECT_GE(reads_of_tenth(reads, found), 0.9 * reads_of_tenth(reads, reads));
      // And how many rows a batch reads in all: somewhat fewer, because nodes that draw the same row tend
      // to be in the same batches.
      const double sum = std::accumulate(found.begin(), found.end(), 0.0);
      const double counted = std::accumulate(reads.begin(), reads.end(), 0.0) / kBatches;
      EXPECT_GT(sum / counted, 1);
      EXPECT_LT(sum / counted, 1.1);
    }
  }

  const data::DatasetArrays links = link_set({.nodes = 500, .degree = 8});
  const data::BatchDraws draws{
      .fanouts = {{4, 3}, {2, 2}, {-1, 5}},
      .batch_size = 20,
      .rule = HopRule::AllSeen,
      .negatives = 1
  };
  const Seeds link_seeds = seeds_of(links);
  Assignment all{std::vector<uint16_t>(500), std::vector<uint16_t>(250)};
  std::vector<std::vector<std::vector<double>>> found;
  for (const size_t threads : {0U, 1U, 4U}) {
    ThreadPool others(threads);
    found.push_back(hotness(
        hotness_input(links, draws), seed_probabilities(links, draws, link_seeds, all, 0), others
    ));
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0], found[2]);
}

TEST(SeedProbabilities, CountBothEndsOfLinksAndNegatives) {
  // Links 0-0, 0-1, 1-1, 2-1; the part owns destination 1.
  const std::vector<int64_t> pairs{0, 0, 0, 1, 1, 1, 2, 1};
  PartLinks links{.pairs = pairs, .source = 0, .destination = 1, .is_owned = [](int64_t item) {
                    return item == 1;
                  }};
  const auto found = link_seed_probabilities({4, 2}, links, {.batch_size = 2, .negatives = 0});
  const double one = 2.0 / 3;
  expect_near(found[0], {one, one, one, 0});
  expect_near(found[1], {0, 1 - std::pow(1 - one, 3)});
  const auto with = link_seed_probabilities({4, 2}, links, {.batch_size = 2, .negatives = 0.5});
  expect_near(with[0], {1 - (1 - one) * 0.75, 1 - (1 - one) * 0.75, 1 - (1 - one) * 0.75, 0.25});
  EXPECT_NEAR(with[1][0], 0.5, 1e-14);
  const std::vector<double> weights{1, 1, 2, 0};
  links.negative_weights[0] = weights;
  const auto weighed = link_seed_probabilities({4, 2}, links, {.batch_size = 2, .negatives = 0.5});
  expect_near(weighed[0], {1 - (1 - one) * 0.75, 1 - (1 - one) * 0.75, 1 - (1 - one) * 0.5, 0});
  EXPECT_EQ(weighed[1], with[1]);
}

}  // namespace
}  // namespace gnn::partition
