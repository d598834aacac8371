#include "worker/sampling/core/draw.h"

#include "tests/worker/sampling/core/chi_square.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace gnn::sampling::core {
namespace {

constexpr double kDeviations =
    5;  // one-sided; the seeds are fixed, so a passing test passes for ever

struct Case {
  int64_t degree;
  int64_t count;
};

std::vector<int64_t> draw(int64_t degree, int64_t count, uint64_t node) {
  NeighborDraw drawer(count);
  std::vector<int64_t> out(static_cast<size_t>(count));
  drawer.distinct(CounterRng({11, 12}, 0, node), degree, count, 0, out.data());
  return out;
}

class DistinctDraw : public ::testing::TestWithParam<Case> {};

TEST_P(DistinctDraw, IsUniformOverPositions) {
  const auto [degree, count] = GetParam();
  // At least 40 expected hits per position, and two million draws where one trial draws hundreds.
  const int64_t trials =
      std::max<int64_t>(count <= 100 ? 20000 : 2'000'000 / count, 40 * degree / count);
  NeighborDraw drawer(count);
  std::vector<int64_t> out(static_cast<size_t>(count));
  std::vector<int64_t> hits(static_cast<size_t>(degree));
  for (int64_t node = 0; node < trials; ++node) {
    drawer.distinct(
        CounterRng({11, 12}, 0, static_cast<uint64_t>(node)), degree, count, 0, out.data()
    );
    for (const int64_t offset : out) ++hits[static_cast<size_t>(offset)];
  }
  const double hit = static_cast<double>(count) / static_cast<double>(degree);
  EXPECT_LT(chi_square_deviation(hits, static_cast<double>(trials), hit), kDeviations);
}

TEST_P(DistinctDraw, GivesDistinctPositionsInRange) {
  const auto [degree, count] = GetParam();
  for (uint64_t node = 0; node < 20; ++node) {
    const auto drawn = draw(degree, count, node);
    const std::set<int64_t> distinct(drawn.begin(), drawn.end());
    EXPECT_EQ(static_cast<int64_t>(distinct.size()), count);
    EXPECT_GE(*distinct.begin(), 0);
    EXPECT_LT(*distinct.rbegin(), degree);
  }
}

// Fan-outs on each way of drawing (scan, table, partial shuffle), next to their borders, and one
// below the degree.
INSTANTIATE_TEST_SUITE_P(
    Degrees,
    DistinctDraw,
    ::testing::Values(
        Case{3, 1},
        Case{3, 2},
        Case{40, 1},
        Case{40, 5},
        Case{40, 32},
        Case{40, 33},
        Case{40, 39},
        Case{4000, 1},
        Case{4000, 10},
        Case{4000, 32},
        Case{4000, 33},
        Case{4000, 999},
        Case{4000, 1000},
        Case{4000, 3999},
        Case{40000, 1},
        Case{40000, 15},
        Case{40000, 100},
        Case{40000, 9999},
        Case{40000, 10001}
    ),
    [](const auto& each) {
      return "Degree" + std::to_string(each.param.degree) + "Fanout" +
             std::to_string(each.param.count);
    }
);

TEST(DistinctDraw, MakesAllSubsetsEquallyLikely) {
  for (const Case each : {Case{5, 3}, Case{6, 2}, Case{7, 4}}) {
    std::map<std::set<int64_t>, int64_t> seen;
    constexpr int64_t kTrials = 70000;
    for (uint64_t node = 0; node < kTrials; ++node) {
      const auto drawn = draw(each.degree, each.count, node);
      ++seen[std::set<int64_t>(drawn.begin(), drawn.end())];
    }
    std::vector<int64_t> counts;
    for (const auto& [subset, count] : seen) counts.push_back(count);
    const double subsets = each.degree == 5 ? 10 : each.degree == 6 ? 15 : 35;
    ASSERT_EQ(static_cast<double>(counts.size()), subsets);
    EXPECT_LT(chi_square_deviation(counts, kTrials, 1 / subsets), kDeviations);
  }
}

TEST(DistinctDraw, MakesAllSubsetsEquallyLikelyByShuffleAndTable) {
  // 33 of 34 leave out one position, each equally often; 33 of 133 are drawn by table.
  std::vector<int64_t> left_out(34);
  for (uint64_t node = 0; node < 34000; ++node) {
    const auto drawn = draw(34, 33, node);
    int64_t missing = 33 * 34 / 2;
    for (const int64_t offset : drawn) missing -= offset;
    ++left_out[static_cast<size_t>(missing)];
  }
  EXPECT_LT(chi_square_deviation(left_out, 34000, 1.0 / 34), kDeviations);
  std::vector<int64_t> largest(133);
  std::vector<int64_t> smallest(133);
  for (uint64_t node = 0; node < 20000; ++node) {
    const auto drawn = draw(133, 33, node);
    ++largest[static_cast<size_t>(132 - *std::max_element(drawn.begin(), drawn.end()))];
    ++smallest[static_cast<size_t>(*std::min_element(drawn.begin(), drawn.end()))];
  }
  // Both ends of a list are reached alike: P(end drawn) = 33/133.
  for (const auto* ends : {&largest, &smallest}) {
    EXPECT_NEAR(
        static_cast<double>((*ends)[0]) / 20000,
        33.0 / 133,
        5 * std::sqrt(33.0 / 133 * 100 / 133 / 20000)
    );
  }
}

TEST(DistinctDraw, WorksBeyondThirtyTwoBits) {
  constexpr int64_t kDegree = int64_t{5} << 32;
  std::vector<int64_t> by_fifth(5);
  for (uint64_t node = 0; node < 10000; ++node) {
    for (const int64_t offset : draw(kDegree, 3, node))
      ++by_fifth[static_cast<size_t>(offset >> 32)];
  }
  EXPECT_LT(chi_square_deviation(by_fifth, 30000, 0.2), kDeviations);
}

TEST(DrawWithReplacement, IsUniform) {
  for (const int64_t degree : {3, 40, 4000, 40000}) {
    std::vector<int64_t> hits(static_cast<size_t>(degree));
    const int64_t trials = std::max<int64_t>(4000, 4 * degree);
    std::vector<int64_t> out(10);
    for (int64_t node = 0; node < trials; ++node) {
      NeighborDraw::with_replacement(
          CounterRng({1, 1}, 0, static_cast<uint64_t>(node)), degree, 10, 0, out.data()
      );
      for (const int64_t offset : out) ++hits[static_cast<size_t>(offset)];
    }
    EXPECT_LT(
        chi_square_deviation(
            hits, static_cast<double>(10 * trials), 1 / static_cast<double>(degree)
        ),
        kDeviations
    );
  }
}

// The test itself is tested: the two faults known from other samplers must show.
TEST(ChiSquare, SeesModuloBiasAtFortyThousand) {
  CounterRng rng({3, 3}, 0, 0);
  std::vector<int64_t> hits(40000);
  for (int i = 0; i < 1600000; ++i) ++hits[(rng.next32() & 0xFFFF) % 40000];
  EXPECT_GT(chi_square_deviation(hits, 1600000, 1.0 / 40000), kDeviations);
}

TEST(ChiSquare, SeesAFloydThatNeverDrawsTheLast) {
  std::vector<int64_t> hits(40);
  for (uint64_t node = 0; node < 20000; ++node) {
    CounterRng rng({3, 3}, 0, node);
    std::set<int64_t> drawn;
    for (int64_t last = 35; last < 40; ++last) {
      const auto offset =
          static_cast<int64_t>(rng.below(static_cast<uint64_t>(last)));  // must be last + 1
      if (!drawn.insert(offset).second) drawn.insert(last);
    }
    for (const int64_t offset : drawn) ++hits[static_cast<size_t>(offset)];
  }
  EXPECT_GT(chi_square_deviation(hits, 20000, 5.0 / 40), kDeviations);
}

}  // namespace
}  // namespace gnn::sampling::core
