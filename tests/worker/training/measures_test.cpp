#include "worker/training/measures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kHighest = std::numeric_limits<float>::max();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

struct Ranking {
  std::vector<float> positive;
  std::vector<float> negative;
};

Ranking ranking_of(const std::vector<float>& scores, const std::vector<int>& labels) {
  Ranking ranking;
  for (size_t i = 0; i < scores.size(); ++i)
    (labels[i] == 1 ? ranking.positive : ranking.negative).push_back(scores[i]);
  return ranking;
}

// Every pair of a positive and a negative.
double slow_auc(const Ranking& ranking) {
  double wins = 0;
  for (const float positive : ranking.positive)
    for (const float negative : ranking.negative)
      wins += positive > negative ? 1.0 : positive == negative ? 0.5 : 0.0;
  return wins / static_cast<double>(ranking.positive.size() * ranking.negative.size());
}

double count_from(const std::vector<float>& scores, float bound) {
  return static_cast<double>(std::ranges::count_if(scores, [&](float score) {
    return score >= bound;
  }));
}

// The precision at each positive's threshold.
double slow_average_precision(const Ranking& ranking) {
  double sum = 0;
  for (const float bound : ranking.positive) {
    const double found = count_from(ranking.positive, bound);
    sum += found / (found + count_from(ranking.negative, bound));
  }
  return sum / static_cast<double>(ranking.positive.size());
}

// A positive is above the k-th best negative if fewer than k are as high.
double slow_hits(const Ranking& ranking, int64_t k) {
  double hits = 0;
  for (const float positive : ranking.positive)
    hits += count_from(ranking.negative, positive) < static_cast<double>(k) ? 1 : 0;
  return hits / static_cast<double>(ranking.positive.size());
}

// From the mean of the first and the last place among equals.
double slow_reciprocal_rank(float positive, const std::vector<float>& negatives) {
  std::vector<float> all = negatives;
  all.push_back(positive);
  std::ranges::sort(all, std::greater{});
  const auto [first, last] = std::ranges::equal_range(all, positive, std::greater{});
  return 2.0 / static_cast<double>((first - all.begin() + 1) + (last - all.begin()));
}

// Rankings with ties, blocks of equals, one class much rarer than the other, and all kinds of floats.
std::vector<Ranking> many_rankings() {
  std::mt19937_64 random(3);
  const std::vector<float> extreme = {
      -kInfinity,
      -kHighest,
      -1,
      -2 * kDenormal,
      -kDenormal,
      -0.0F,
      0.0F,
      kDenormal,
      2 * kDenormal,
      1e-38F,
      1,
      std::nextafter(1.0F, 2.0F),
      kHighest,
      kInfinity
  };
  const auto pick = [&](int64_t kind) -> float {
    if (kind == 0) return extreme[random() % extreme.size()];
    if (kind == 1) return static_cast<float>(random() % 3);
    if (kind == 2) return 7;
    return static_cast<float>(random() % 1'000'003) / 1000.0F - 500.0F;
  };
  std::vector<Ranking> rankings;
  for (int64_t round = 0; round < 400; ++round) {
    Ranking ranking;
    const size_t positives = 1 + random() % (round % 5 == 0 ? 3 : 60);
    const size_t negatives = 1 + random() % (round % 7 == 0 ? 3 : 60);
    for (size_t i = 0; i < positives; ++i) ranking.positive.push_back(pick(round % 4));
    for (size_t i = 0; i < negatives; ++i) ranking.negative.push_back(pick(round % 4));
    rankings.push_back(std::move(ranking));
  }
  return rankings;
}

TEST(Measures, AreThoseOfEveryPairByItself) {
  for (const Ranking& ranking : many_rankings()) {
    const auto& [positive, negative] = ranking;
    EXPECT_NEAR(auc(positive, negative), slow_auc(ranking), 1e-12);
    EXPECT_NEAR(average_precision(positive, negative), slow_average_precision(ranking), 1e-12);
    for (const int64_t k : {1, 2, 5, 40, 61})
      EXPECT_EQ(hits_at_k(positive, negative, k), slow_hits(ranking, k)) << k;
  }
}

TEST(Measures, HaveTheSameBitsInAnyOrderOfTheScores) {
  std::mt19937_64 random(4);
  for (const auto& [positive, negative] : many_rankings()) {
    Ranking other{positive, negative};
    std::ranges::shuffle(other.positive, random);
    std::ranges::shuffle(other.negative, random);
    EXPECT_EQ(auc(other.positive, other.negative), auc(positive, negative));
    EXPECT_EQ(
        average_precision(other.positive, other.negative), average_precision(positive, negative)
    );
    EXPECT_EQ(hits_at_k(other.positive, other.negative, 3), hits_at_k(positive, negative, 3));
  }
}

// roc_auc_score and average_precision_score of scikit-learn 1.9.1 on float32 scores.
TEST(Measures, AreScikitLearns) {
  const auto expect = [](const Ranking& ranking, double area, double precision) {
    EXPECT_NEAR(auc(ranking.positive, ranking.negative), area, 1e-14);
    EXPECT_NEAR(average_precision(ranking.positive, ranking.negative), precision, 1e-14);
  };
  expect(ranking_of({0.1F, 0.4F, 0.35F, 0.8F}, {0, 0, 1, 1}), 0.75, 0.8333333333333333);
  expect(
      ranking_of(
          {0.5F, 0.5F, 0.5F, 0.2F, 0.2F, 0.9F, 0.9F, -1, -1, 3}, {1, 0, 0, 1, 0, 1, 0, 0, 1, 1}
      ),
      0.5800000000000001,
      0.6333333333333333
  );
  expect(ranking_of({2, 2, 2, 2, 2, 2, 2}, {1, 0, 0, 1, 0, 0, 0}), 0.5, 0.2857142857142857);
  expect(
      ranking_of(
          {1e-45F, 0, -0.0F, 3e-45F, 3.4e38F, -3.4e38F, 1e-45F, -1e-45F}, {1, 0, 1, 1, 1, 0, 0, 0}
      ),
      0.875,
      0.8541666666666666
  );
  Ranking many;
  for (int i = 0; i < 1000; ++i) {
    const float score = static_cast<float>(i * 7919 % 101) / 8;
    if (i % 3 == 0) {
      many.positive.push_back(score + 2);
    } else {
      many.negative.push_back(score);
    }
  }
  expect(many, 0.642539245832659, 0.5325808434954167);
}

TEST(Measures, StayExactInLargeBlocksOfEquals) {
  constexpr size_t kBlock = 200'000;
  std::vector<float> positive(kBlock, 1);
  std::vector<float> negative(kBlock, 1);
  EXPECT_EQ(auc(positive, negative), 0.5);
  EXPECT_EQ(average_precision(positive, negative), 0.5);
  EXPECT_EQ(hits_at_k(positive, negative, 1), 0);
  // One pair of 4e10 more is won: its share is not lost in rounding.
  positive.push_back(2);
  EXPECT_EQ(
      auc(positive, negative),
      (0.5 * kBlock * kBlock + kBlock) / (static_cast<double>(kBlock + 1) * kBlock)
  );
}

TEST(Auc, IsNanIfAClassIsAbsent) {
  EXPECT_TRUE(std::isnan(auc({}, {1, 2})));
  EXPECT_TRUE(std::isnan(auc({1, 2}, {})));
}

TEST(AveragePrecision, IsNanWithoutPositivesAndOneWithoutNegatives) {
  EXPECT_TRUE(std::isnan(average_precision({}, {1, 2})));
  EXPECT_EQ(average_precision({1, 2}, {}), 1);
}

TEST(Measures, AreNanIfAScoreIs) {
  const float nan = std::nanf("");
  for (const auto& [positive, negative] : {Ranking{{1, nan}, {2, 3}}, Ranking{{1, 2}, {nan, 3}}}) {
    EXPECT_TRUE(std::isnan(auc(positive, negative)));
    EXPECT_TRUE(std::isnan(average_precision(positive, negative)));
    EXPECT_TRUE(std::isnan(hits_at_k(positive, negative, 1)));
  }
}

TEST(HitsAtK, CountsPositivesStrictlyAboveTheKthBestNegative) {
  const std::vector<float> positive = {9, 5, 4, 1};
  const std::vector<float> negative = {1, 8, 5, 3};
  EXPECT_EQ(hits_at_k(positive, negative, 1), 0.25) << "above 8";
  EXPECT_EQ(hits_at_k(positive, negative, 2), 0.25) << "above 5, which ties";
  EXPECT_EQ(hits_at_k(positive, negative, 3), 0.75) << "above 3";
  EXPECT_EQ(hits_at_k(positive, negative, 4), 0.75) << "above 1";
  EXPECT_EQ(hits_at_k(positive, negative, 5), 1) << "fewer than 5 negatives";
  EXPECT_TRUE(std::isnan(hits_at_k({}, negative, 1)));
}

TEST(RankCounts, PlaceEachPositiveAmongItsOwnNegativesWithTiesAtTheMeanRank) {
  std::mt19937_64 random(5);
  constexpr int64_t kNegatives = 9;
  RankCounts ranks(kNegatives);
  double sum = 0;
  for (int64_t batch = 0; batch < 50; ++batch) {
    std::vector<float> positive;
    std::vector<float> negatives;
    for (int64_t i = 0; i < 6; ++i) {
      positive.push_back(static_cast<float>(random() % 6));
      std::vector<float> own(kNegatives);
      for (float& score : own) score = static_cast<float>(random() % 6);
      own[0] = batch % 2 == 0 ? kInfinity : -kDenormal;
      sum += slow_reciprocal_rank(positive.back(), own);
      negatives.insert(negatives.end(), own.begin(), own.end());
    }
    ranks.add(positive, negatives);
  }
  EXPECT_EQ(ranks.positives(), 300);
  EXPECT_NEAR(ranks.mean_reciprocal_rank(), sum / 300, 1e-13);
}

TEST(RankCounts, SpanFromTheBestRankToTheLast) {
  const auto reciprocal = [](float positive, const std::vector<float>& negatives) {
    RankCounts ranks(std::ssize(negatives));
    ranks.add(std::vector{positive}, negatives);
    return ranks.mean_reciprocal_rank();
  };
  EXPECT_EQ(reciprocal(5, {1, 2, 3}), 1);
  EXPECT_EQ(reciprocal(0, {1, 2, 3}), 0.25);
  EXPECT_EQ(reciprocal(2, {1, 2, 3}), 1 / 2.5);
  EXPECT_EQ(reciprocal(2, {2, 2, 2}), 1 / 2.5);
  EXPECT_TRUE(std::isnan(RankCounts(3).mean_reciprocal_rank()));
}

}  // namespace
}  // namespace gnn::training
