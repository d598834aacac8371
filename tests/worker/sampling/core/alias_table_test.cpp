#include "worker/sampling/core/alias_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace gnn::sampling::core {
namespace {

// How far the draws lie from the weights, as chi_square_deviation() has it.
double deviation(const std::vector<double>& weights, int64_t trials) {
  const AliasTable table(weights);
  std::vector<int64_t> counts(weights.size());
  CounterRng rng({3, 5}, 0, 0);
  for (int64_t i = 0; i < trials; ++i) ++counts[static_cast<size_t>(table.draw(rng))];
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double statistic = 0;
  double cells = -1;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) {
      EXPECT_EQ(counts[i], 0) << i;
      continue;
    }
    const double expected = static_cast<double>(trials) * weights[i] / total;
    statistic += std::pow(static_cast<double>(counts[i]) - expected, 2) / expected;
    ++cells;
  }
  return (statistic - cells) / std::sqrt(2 * cells);
}

TEST(AliasTable, DrawsInProportionToTheWeights) {
  std::vector<double> degrees;
  for (int64_t degree = 0; degree < 50; ++degree)
    degrees.push_back(std::pow(static_cast<double>(degree), 0.75));
  EXPECT_LT(std::abs(deviation(degrees, 1'000'000)), 4);
  EXPECT_LT(std::abs(deviation({1, 0, 1000, 0, 3}, 1'000'000)), 4);
  EXPECT_LT(std::abs(deviation(std::vector<double>(7, 0.1), 200'000)), 4);
}

TEST(AliasTable, DrawsTheOnlyIndexThatHasAWeight) {
  const AliasTable table(std::vector<double>{0, 0, 2, 0});
  CounterRng rng({3, 5}, 0, 0);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(table.draw(rng), 2);
}

}  // namespace
}  // namespace gnn::sampling::core
