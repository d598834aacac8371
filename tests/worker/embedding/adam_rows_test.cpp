#include "worker/embedding/adam_rows.h"

#include "tests/worker/embedding/dense_adam.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace gnn::embedding {
namespace {

constexpr int64_t kWidth = 19;  // no multiple of any vector

at::Tensor ids_from(const std::set<int64_t>& ids) {
  return at::tensor(std::vector<int64_t>(ids.begin(), ids.end()), at::kLong);
}

// Draws the rows that a step touches.
using Pattern = std::set<int64_t> (*)(std::mt19937_64& random, int64_t rows, int64_t step);

std::set<int64_t> uniform(std::mt19937_64& random, int64_t rows, int64_t) {
  std::set<int64_t> ids;
  // The last row is never touched.
  for (int64_t i = 0; i < rows / 50; ++i)
    ids.insert(static_cast<int64_t>(random() % static_cast<uint64_t>(rows - 1)));
  return ids;
}

std::set<int64_t> zipf(std::mt19937_64& random, int64_t rows, int64_t) {
  std::set<int64_t> ids;
  for (int64_t i = 0; i < rows / 20; ++i) {
    const double u = std::uniform_real_distribution<>()(random);
    ids.insert(static_cast<int64_t>(std::pow(static_cast<double>(rows - 1), u)) - 1);
  }
  return ids;
}

// Row i is touched in step i alone: what it became after each number of steps up to 1,000.
std::set<int64_t> once(std::mt19937_64&, int64_t rows, int64_t step) {
  return {step % rows};
}

std::vector<Touch> touches(Pattern pattern, int64_t rows, int64_t steps) {
  std::mt19937_64 random(5);
  torch::manual_seed(11);
  std::vector<Touch> result;
  for (int64_t step = 0; step < steps; ++step) {
    const at::Tensor ids = ids_from(pattern(random, rows, step));
    // From 1e-12 to 10: epsilon is nothing for some and all for others.
    const at::Tensor magnitude = at::pow(10.0, at::rand({ids.numel(), 1}, at::kDouble) * 13 - 12);
    const at::Tensor gradients = at::randn({ids.numel(), kWidth}, at::kDouble) * magnitude;
    // A warm-up and a decay.
    const double rate = 0.01 * std::min(1.0, static_cast<double>(step) / 100) /
                        (1 + static_cast<double>(step) / 500);
    result.push_back({ids, gradients, rate});
  }
  return result;
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

struct NamedPattern {
  const char* name;
  Pattern pattern;
};
const std::vector<NamedPattern> kPatterns{{"uniform", uniform}, {"zipf", zipf}, {"once", once}};

TEST(AllRows, AreThoseOfTorchsAdamInFloat64WhateverTheRowsThatAreTouched) {
  for (const auto& [name, pattern] : kPatterns) {
    SCOPED_TRACE(name);
    const at::Tensor start = at::randn({1000, kWidth}, at::kDouble);
    DenseAdam dense(start);
    LazilyDenseAdam lazy(start);
    for (const Touch& touch : touches(pattern, 1000, 1000)) {
      dense.step(touch);
      ASSERT_FALSE(lazy.step(touch));
    }
    EXPECT_LT(largest_difference(dense.values(), lazy.values()), 1e-9);
    printf("%s f64 %g\n", name, largest_difference(dense.values(), lazy.values()));
  }
}

// torch's own values lose with each step what is smaller than their last bit.
TEST(AllRows, InFloat32AreNoFurtherFromFloat64ThanTorchsOwn) {
  for (const auto& [name, pattern] : kPatterns) {
    SCOPED_TRACE(name);
    const at::Tensor start = at::randn({1000, kWidth}, at::kFloat);
    DenseAdam exact(start.to(at::kDouble));
    DenseAdam dense(start);
    LazilyDenseAdam lazy(start);
    for (Touch touch : touches(pattern, 1000, 1000)) {
      touch.gradients = touch.gradients.to(at::kFloat);
      exact.step(touch);
      dense.step(touch);
      ASSERT_FALSE(lazy.step(touch));
    }
    printf("%s f32 ours %g torch %g\n", name, largest_difference(exact.values(), lazy.values()), largest_difference(exact.values(), dense.values()));
    EXPECT_LT(
        largest_difference(exact.values(), lazy.values()),
        largest_difference(exact.values(), dense.values()) + 1e-6
    );
  }
}

TEST(AllRows, HaveTorchsBitsWhereEachIsTouchedInEachStep) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    torch::manual_seed(1);
    const at::Tensor start = at::randn({40, 64}, type);
    DenseAdam dense(start);
    LazilyDenseAdam lazy(start);
    for (int64_t step = 0; step < 200; ++step) {
      const Touch touch{
          at::arange(40, at::kLong),
          at::randn({40, 64}, type) * std::pow(10.0, -static_cast<double>(step % 12)),
          0.01 / static_cast<double>(1 + step),
      };
      dense.step(touch);
      ASSERT_FALSE(lazy.step(touch));
      ASSERT_TRUE(at::equal(dense.values(), lazy.values())) << type << " step " << step;
    }
  }
}

}  // namespace
}  // namespace gnn::embedding
