#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace gnn::sampling::core {

/// How far a chi-square statistic lies from its expectation, in standard deviations. `counts` of
/// `trials` draws, each of which hits every cell with probability `hit`, at most once. With hit =
/// 1/cells this is the usual test; for draws of k distinct cells (hit = k/cells) the cells exclude
/// each other, which the variance accounts for.
inline double chi_square_deviation(const std::vector<int64_t>& counts, double trials, double hit) {
  const auto cells = static_cast<double>(counts.size());
  const double expected = trials * hit;
  double sum = 0;
  for (const int64_t count : counts) {
    const double difference = static_cast<double>(count) - expected;
    sum += difference * difference;
  }
  const double statistic = sum / (expected * (1 - hit)) * (cells - 1) / cells;
  return (statistic - (cells - 1)) / std::sqrt(2 * (cells - 1));
}

}  // namespace gnn::sampling::core
