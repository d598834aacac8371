#pragma once

#include <cmath>
#include <vector>

namespace gnn::app {

/// Mean of independent values, and the square of its standard error.
struct Spread {
  double mean = 0;
  double variance_of_mean = 0;
};

/// `values`: two or more.
inline Spread spread_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  Spread spread;
  for (const double value : values) spread.mean += value / n;
  for (const double value : values) {
    spread.variance_of_mean += (value - spread.mean) * (value - spread.mean) / (n - 1) / n;
  }
  return spread;
}

/// Standard error of the difference of two means: sqrt(s_a^2 / n_a + s_b^2 / n_b).
inline double error_of_difference(const Spread& a, const Spread& b) {
  return std::sqrt(a.variance_of_mean + b.variance_of_mean);
}

}  // namespace gnn::app
