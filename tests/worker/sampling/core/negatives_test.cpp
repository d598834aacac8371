#include "worker/sampling/core/negatives.h"

#include "tests/worker/sampling/core/chi_square.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace gnn::sampling::core {
namespace {

NegativeSampler sampler_of(const NegativeOptions& options) {
  return NegativeSampler::create(options).value();
}

TEST(NegativeSampler, DrawsAsManyAsPythonWouldRoundUp) {
  const auto count = [](double amount, int64_t positives) {
    return sampler_of({.shape = {3, 3}, .amount = amount}).count_for(positives);
  };
  EXPECT_EQ(count(1, 2048), 2048);
  EXPECT_EQ(count(0.1, 11), 2);
  EXPECT_EQ(count(2.5, 3), 8);
  EXPECT_EQ(count(0, 7), 0);
  EXPECT_EQ(count(0.07, 100), 8);  // 7.000000000000001 as doubles
}

TEST(NegativeSampler, DrawsBothEndsUniformlyAndIndependently) {
  const auto sampler = sampler_of({.shape = {7, 11}});
  std::vector<int64_t> counts(77);
  for (uint64_t batch = 0; batch < 100; ++batch) {
    for (const NodePair& pair : sampler.draw({.seed = 2, .batch = batch}, 1000).pairs)
      ++counts[static_cast<size_t>(pair.source * 11 + pair.destination)];
  }
  EXPECT_LT(std::abs(chi_square_deviation(counts, 100'000, 1.0 / 77)), 4);
}

TEST(NegativeSampler, WeighsEachEndByItsDegreeToThreeQuarters) {
  const std::vector<int64_t> sources{0, 1, 16, 81};
  const std::vector<int64_t> destinations{256, 1};
  const auto sampler =
      sampler_of({.shape = {4, 2}, .source_degrees = sources, .destination_degrees = destinations});
  std::map<NodePair, int64_t> counts;
  const int64_t trials = 200'000;
  for (const NodePair& pair : sampler.draw({.seed = 4}, trials).pairs) ++counts[pair];
  const std::vector<double> source_weights{0, 1, 8, 27};
  const std::vector<double> destination_weights{64, 1};
  double statistic = 0;
  for (size_t s = 0; s < 4; ++s) {
    for (size_t d = 0; d < 2; ++d) {
      const auto found =
          static_cast<double>(counts[{static_cast<int64_t>(s), static_cast<int64_t>(d)}]);
      const double expected =
          static_cast<double>(trials) * source_weights[s] / 36 * destination_weights[d] / 65;
      if (s == 0) {
        EXPECT_EQ(found, 0);
      } else {
        statistic += (found - expected) * (found - expected) / expected;
      }
    }
  }
  EXPECT_LT(std::abs(statistic - 5) / std::sqrt(10), 4);
}

TEST(NegativeSampler, IsAFunctionOfThePosition) {
  const auto sampler = sampler_of({.shape = {1000, 1000}});
  const auto base = sampler.draw({.seed = 1, .epoch = 1, .batch = 1}, 50).pairs;
  EXPECT_EQ(sampler.draw({.seed = 1, .epoch = 1, .batch = 1}, 50).pairs, base);
  EXPECT_NE(sampler.draw({.seed = 2, .epoch = 1, .batch = 1}, 50).pairs, base);
  EXPECT_NE(sampler.draw({.seed = 1, .epoch = 2, .batch = 1}, 50).pairs, base);
  EXPECT_NE(sampler.draw({.seed = 1, .epoch = 1, .batch = 2}, 50).pairs, base);
  // A shorter batch has the same first pairs.
  const auto some = sampler.draw({.seed = 1, .epoch = 1, .batch = 1}, 20).pairs;
  EXPECT_TRUE(std::equal(some.begin(), some.end(), base.begin()));
}

// 3 of 4 pairs are links: without `avoided` they come up, with it the free one alone does.
TEST(NegativeSampler, DrawsLinksAnewIfItIsStrict) {
  const std::vector<int64_t> pairs{0, 0, 0, 1, 1, 0};
  const PairSetShape shape{.num_sources = 2, .num_destinations = 2};
  const auto links = std::make_shared<const PairSet>(PairSet::create(shape, pairs).value());
  const auto loose = sampler_of({.shape = shape}).draw({}, 1000);
  EXPECT_EQ(loose.links, 0);
  EXPECT_GT(std::count(loose.pairs.begin(), loose.pairs.end(), (NodePair{0, 0})), 200);
  const auto strict = sampler_of({.shape = shape, .avoided = links}).draw({}, 1000);
  const auto hits = std::count(strict.pairs.begin(), strict.pairs.end(), (NodePair{1, 1}));
  // (3/4)^32 of 1000 are left: 0.1 on average.
  EXPECT_GE(hits, 998);
  EXPECT_EQ(strict.links, 1000 - hits);
}

TEST(NegativeSampler, GivesUpAndCountsWhereEveryPairIsALink) {
  const std::vector<int64_t> pairs{0, 0, 0, 1, 1, 0, 1, 1};
  const PairSetShape shape{.num_sources = 2, .num_destinations = 2};
  const auto links = std::make_shared<const PairSet>(PairSet::create(shape, pairs).value());
  const auto drawn = sampler_of({.shape = shape, .avoided = links}).draw({}, 10);
  EXPECT_EQ(drawn.pairs.size(), 10U);
  EXPECT_EQ(drawn.links, 10);
}

TEST(NegativeSampler, PutsTheEndsOfUndirectedPairsInOrder) {
  const auto drawn =
      sampler_of({.shape = {5, 5, PairDomain::Ascending}}).draw({.seed = 1}, 1000).pairs;
  for (const NodePair& pair : drawn) EXPECT_LE(pair.source, pair.destination);
}

TEST(NegativeSampler, NamesWhatIsWrong) {
  EXPECT_EQ(
      NegativeSampler::create({.shape = {3, 3}, .amount = -1}).error().message,
      "sampling.negatives.amount: expected a number of negatives per link, found -1.000000"
  );
  EXPECT_FALSE(NegativeSampler::create({.shape = {3, 0}}));
  const std::vector<int64_t> none{0, 0, 0};
  EXPECT_EQ(
      NegativeSampler::create({.shape = {3, 3}, .source_degrees = none}).error().message,
      "sampling.negatives.weights: no source has a link to weigh it by"
  );
}

TEST(RankingNegatives, AreDistinctFreeDestinationsOfTheSource) {
  const std::vector<int64_t> pairs{0, 0, 0, 2, 0, 4, 1, 1};
  const PairSet links = PairSet::create({.num_sources = 2, .num_destinations = 8}, pairs).value();
  const std::vector<NodePair> all = draw_ranking_negatives(links, 0, 5, 1, 0);
  EXPECT_EQ(all, (std::vector<NodePair>{{0, 1}, {0, 3}, {0, 5}, {0, 6}, {0, 7}}));
  std::vector<int64_t> counts(8);
  constexpr int64_t kTrials = 20'000;
  for (int64_t place = 0; place < kTrials; ++place) {
    const auto drawn = draw_ranking_negatives(links, 0, 2, 9, place);
    ASSERT_NE(drawn[0], drawn[1]);
    for (const NodePair& pair : drawn) {
      ASSERT_FALSE(links.contains(pair));
      ++counts[static_cast<size_t>(pair.destination)];
    }
  }
  const std::vector<int64_t> free{counts[1], counts[3], counts[5], counts[6], counts[7]};
  EXPECT_LT(std::abs(chi_square_deviation(free, kTrials, 2.0 / 5)), 4);
  EXPECT_EQ(draw_ranking_negatives(links, 1, 3, 9, 4), draw_ranking_negatives(links, 1, 3, 9, 4));
}

}  // namespace
}  // namespace gnn::sampling::core
