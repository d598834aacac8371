#include "worker/sampling/core/pair_set.h"

#include "tests/worker/sampling/core/chi_square.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace gnn::sampling::core {
namespace {

CounterRng random_stream(uint64_t place) {
  return {{21, 4}, 0, place};
}

// The slow and obvious program.
std::set<NodePair> free_pairs(const PairSetShape& shape, const std::vector<int64_t>& pairs) {
  std::set<NodePair> free;
  for (int64_t source = 0; source < shape.num_sources; ++source) {
    for (int64_t destination = 0; destination < shape.num_destinations; ++destination) {
      if (shape.domain == PairDomain::NoLoops && source == destination) continue;
      if (shape.domain == PairDomain::Ascending && source >= destination) continue;
      free.insert({source, destination});
    }
  }
  for (size_t i = 0; i < pairs.size(); i += 2) {
    free.erase({pairs[i], pairs[i + 1]});
    if (shape.domain == PairDomain::Ascending) free.erase({pairs[i + 1], pairs[i]});
  }
  return free;
}

TEST(PairSet, TellsLinksFromFreePairsInEveryDomain) {
  for (const PairDomain domain : {PairDomain::All, PairDomain::NoLoops, PairDomain::Ascending}) {
    for (uint64_t trial = 0; trial < 30; ++trial) {
      CounterRng rng = random_stream(trial);
      PairSetShape shape{.num_sources = 1 + static_cast<int64_t>(rng.below(9)), .domain = domain};
      shape.num_destinations =
          domain == PairDomain::All ? 1 + static_cast<int64_t>(rng.below(12)) : shape.num_sources;
      std::vector<int64_t> pairs;
      for (uint64_t i = rng.below(60); i > 0; --i) {
        pairs.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(shape.num_sources))));
        pairs.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(shape.num_destinations)
        )));
      }
      const std::set<NodePair> free = free_pairs(shape, pairs);
      const PairSet set = PairSet::create(shape, pairs).value();
      ASSERT_EQ(set.num_free(), static_cast<int64_t>(free.size()));
      int64_t rank = 0;
      std::map<int64_t, int64_t> of_source;
      for (const NodePair& pair : free) {
        EXPECT_EQ(set.free_pair(rank++), pair);
        EXPECT_EQ(set.free_pair_of(pair.source, of_source[pair.source]++), pair);
      }
      for (int64_t source = 0; source < shape.num_sources; ++source) {
        EXPECT_EQ(set.num_free_of(source), of_source[source]);
        for (int64_t destination = 0; destination < shape.num_destinations; ++destination) {
          EXPECT_EQ(set.contains({source, destination}), !free.contains({source, destination}));
        }
      }
    }
  }
}

TEST(PairSet, CountsTheGivenPairsAlone) {
  const std::vector<int64_t> pairs{0, 0, 0, 1, 1, 1};
  const std::vector<int64_t> ids{2, 0};
  const PairSet set =
      PairSet::create({.num_sources = 2, .num_destinations = 2}, pairs, ids).value();
  EXPECT_TRUE(set.contains({0, 0}));
  EXPECT_TRUE(set.contains({1, 1}));
  EXPECT_FALSE(set.contains({0, 1}));
}

TEST(PairSet, DrawsDistinctFreePairsUpToAll) {
  const PairSetShape shape{.num_sources = 5, .num_destinations = 6};
  const std::vector<int64_t> pairs{0, 1, 0, 2, 3, 3, 4, 0, 4, 5};
  const PairSet set = PairSet::create(shape, pairs).value();
  const std::set<NodePair> free = free_pairs(shape, pairs);
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{12}, set.num_free()}) {
    const std::vector<NodePair> drawn = set.draw_free(count, random_stream(1));
    const std::set<NodePair> distinct(drawn.begin(), drawn.end());
    EXPECT_EQ(static_cast<int64_t>(distinct.size()), count);
    EXPECT_TRUE(std::includes(free.begin(), free.end(), distinct.begin(), distinct.end()));
  }
}

// Every ordered choice of 2 of the 5 free pairs is equally likely, so that the first are as fair a
// draw as the last.
TEST(PairSet, DrawsEveryOrderedChoiceAlike) {
  const PairSetShape shape{.num_sources = 3, .num_destinations = 3};
  const PairSet set = PairSet::create(shape, std::vector<int64_t>{0, 0, 0, 1, 1, 1, 2, 2}).value();
  std::map<std::vector<NodePair>, int64_t> counts;
  constexpr uint64_t kTrials = 40'000;
  for (uint64_t trial = 0; trial < kTrials; ++trial)
    ++counts[set.draw_free(2, random_stream(trial))];
  ASSERT_EQ(counts.size(), 20U);
  std::vector<int64_t> cells;
  for (const auto& [drawn, count] : counts) cells.push_back(count);
  EXPECT_LT(std::abs(chi_square_deviation(cells, kTrials, 1.0 / 20)), 4);
}

TEST(PairSet, CountsPairsBeyond32Bits) {
  const PairSetShape shape{.num_sources = 1'000, .num_destinations = 4'000'000'000'000};
  const PairSet set = PairSet::create(shape, std::vector<int64_t>{999, 3'999'999'999'999}).value();
  EXPECT_EQ(set.num_free(), 3'999'999'999'999'999);
  EXPECT_EQ(set.free_pair(set.num_free() - 1), (NodePair{999, 3'999'999'999'998}));
}

TEST(PairSet, NamesThePairOutsideTheShape) {
  const std::vector<int64_t> pairs{0, 1, 1, 3};
  EXPECT_EQ(
      PairSet::create({.num_sources = 2, .num_destinations = 3}, pairs).error().message,
      "link 1: expected a pair of nodes below 2 and 3, found 1 and 3"
  );
  const PairSetShape huge{.num_sources = int64_t{1} << 40, .num_destinations = int64_t{1} << 40};
  EXPECT_EQ(PairSet::create(huge, {}).error().kind, ErrorKind::Configuration);
}

}  // namespace
}  // namespace gnn::sampling::core
