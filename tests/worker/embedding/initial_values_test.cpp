#include "worker/embedding/initial_values.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace gnn::embedding {
namespace {

at::Tensor values(int64_t rows, int64_t width, uint64_t key, at::ScalarType type = at::kDouble) {
  at::Tensor result = at::empty({rows, width}, type);
  fill_with_normal(result, key);
  return result;
}

TEST(InitialValues, AreStandardNormal) {
  const at::Tensor draws = std::get<0>(values(1 << 16, 8, 42).flatten().sort());
  // Kolmogorov and Smirnov: the largest distance to the normal distribution; 1.95 / sqrt(n) is passed
  // by one of a thousand samples.
  const auto count = draws.numel();
  const auto* const x = draws.const_data_ptr<double>();
  double distance = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double expected = 0.5 * std::erfc(-x[i] / std::sqrt(2.0));
    distance = std::max(
        {distance,
         std::abs(expected - static_cast<double>(i) / static_cast<double>(count)),
         std::abs(expected - static_cast<double>(i + 1) / static_cast<double>(count))}
    );
  }
  EXPECT_LT(distance, 1.95 / std::sqrt(static_cast<double>(count)));
}

TEST(InitialValues, OfNeighboursAndOfKeysAreNotCorrelated) {
  const at::Tensor a = values(1 << 16, 8, 42);
  const at::Tensor b = values(1 << 16, 8, 43);
  const double bound = 4 / std::sqrt(static_cast<double>(a.numel()));
  const auto correlation = [](const at::Tensor& x, const at::Tensor& y) {
    return std::abs((x * y).mean().item<double>());
  };
  EXPECT_LT(correlation(a, b), bound);
  const at::Tensor flat = a.flatten();
  for (const int64_t lag : {1, 2, 8}) {
    const int64_t rest = flat.numel() - lag;
    EXPECT_LT(correlation(flat.narrow(0, 0, rest), flat.narrow(0, lag, rest)), bound) << lag;
  }
}

TEST(InitialValues, AreThoseOfTheBoxMullerTransform) {
  // The first draws of SplitMix64 from 0 are known: e220a8397b1dcdaf, 6e789e6aa1b965f4.
  const double u = (static_cast<double>(0xe220a8397b1dcdafULL >> 11U) + 1) * 0x1p-53;
  const double turns = static_cast<double>(0x6e789e6aa1b965f4ULL >> 11U) * 0x1p-53;
  const double radius = std::sqrt(-2 * std::log(u));
  const at::Tensor first = values(1, 2, 0);
  EXPECT_NEAR(first[0][0].item<double>(), radius * std::cos(2 * M_PI * turns), 1e-15);
  EXPECT_NEAR(first[0][1].item<double>(), radius * std::sin(2 * M_PI * turns), 1e-15);
}

TEST(InitialValues, DoNotDependOnTheNumberOfRowsOrTheType) {
  const at::Tensor some = values(10, 5, 7);
  EXPECT_TRUE(at::equal(values(1000, 5, 7).narrow(0, 0, 10), some));
  EXPECT_TRUE(at::equal(values(10, 5, 7, at::kFloat), some.to(at::kFloat)));
}

TEST(InitialValues, LeaveWhatLiesBetweenRows) {
  at::Tensor state = at::zeros({6, 3, 4}, at::kFloat);
  fill_with_normal(state.select(1, 0), 3);
  EXPECT_TRUE(at::equal(state.select(1, 0), values(6, 4, 3, at::kFloat)));
  EXPECT_EQ(state.narrow(1, 1, 2).abs().max().item<float>(), 0);
}

}  // namespace
}  // namespace gnn::embedding
