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

at::Tensor sorted_ids(const std::set<int64_t>& ids) {
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
    const at::Tensor ids = sorted_ids(pattern(random, rows, step));
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
    EXPECT_LT(
        largest_difference(exact.values(), lazy.values()),
        std::max(largest_difference(exact.values(), dense.values()), 1e-6)
    );
  }
}

// What m and v can be, from nothing beside epsilon to all: v underflows first, then m.
TEST(AllRows, AreThoseOfTorchsAdamForTinyAndHugeGradients) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    torch::manual_seed(2);
    const int64_t rows = 120;
    // Powers of ten from -42 to 17 in float32: v is from 0 to 1e31.
    const at::Tensor magnitude = at::pow(10.0, at::arange(rows, at::kDouble) / 2 - 42).unsqueeze(1);
    const at::Tensor start = at::rand({rows, kWidth}, type);
    DenseAdam dense(start.to(at::kDouble));
    LazilyDenseAdam lazy(start);
    const Touch nothing{at::empty({0}, at::kLong), at::empty({0, kWidth}, type)};
    for (int64_t step = 0; step < 1000; ++step) {
      Touch touch = nothing;
      if (step % 450 == 40) {
        touch.ids = at::arange(rows, at::kLong);
        touch.gradients = (at::randn({rows, kWidth}, at::kDouble) * magnitude).to(type);
      }
      dense.step(touch);
      ASSERT_FALSE(lazy.step(touch));
    }
    EXPECT_LT(largest_difference(dense.values(), lazy.values()), 1e-6) << type;
    EXPECT_TRUE(at::isfinite(lazy.table().state).all().item<bool>());
  }
}

// torch::optim::Adam's operations, but for the root: MKL's, which torch calls, are not always rounded
// to the nearest number.
struct AdamOperations {
  at::Tensor values;
  at::Tensor m = at::zeros_like(values);
  at::Tensor v = at::zeros_like(values);

  void step(const at::Tensor& gradient, const AdamStep& of) {
    m.mul_(0.9).add_(gradient, 1 - 0.9);
    v.mul_(0.999).addcmul_(gradient, gradient, 1 - 0.999);
    const at::Tensor root = v.to(at::kDouble).sqrt().to(at::kFloat);
    values.addcdiv_(m, (root / of.root).add_(1e-8), -of.step_size);
  }
};

Touch touch_of_all(int64_t step, at::ScalarType type) {
  return {
      at::arange(40, at::kLong),
      at::randn({40, 64}, type) * std::pow(10.0, -static_cast<double>(step % 12)),
      0.01 / static_cast<double>(1 + step),
  };
}

TEST(AllRows, HaveTheBitsOfTorchsOperationsWhereEachIsTouchedInEachStep) {
  torch::manual_seed(1);
  const at::Tensor start = at::randn({40, 64}, at::kFloat);
  AdamOperations expected{start.clone()};
  LazilyDenseAdam lazy(start);
  for (int64_t step = 0; step < 200; ++step) {
    const Touch touch = touch_of_all(step, at::kFloat);
    expected.step(touch.gradients, adam_step({}, step + 1, touch.learning_rate));
    ASSERT_FALSE(lazy.step(touch));
    ASSERT_TRUE(at::equal(lazy.table().state.select(1, 1), expected.m)) << step;
    ASSERT_TRUE(at::equal(lazy.table().state.select(1, 2), expected.v)) << step;
    ASSERT_TRUE(at::equal(lazy.values(), expected.values)) << step;
  }
}

TEST(AllRows, AreThoseOfTorchsAdamWhereEachIsTouchedInEachStep) {
  torch::manual_seed(1);
  const at::Tensor start = at::randn({40, 64}, at::kDouble);
  DenseAdam dense(start);
  LazilyDenseAdam lazy(start);
  for (int64_t step = 0; step < 200; ++step) {
    const Touch touch = touch_of_all(step, at::kDouble);
    dense.step(touch);
    ASSERT_FALSE(lazy.step(touch));
  }
  EXPECT_LT(largest_difference(dense.values(), lazy.values()), 1e-14);
}

// A table of one row whose state after `step` is given, and which rests from then on.
struct RestingRow {
  TableRows table;
  at::Tensor ids = at::zeros({1}, at::kLong);

  RestingRow(int64_t step, const at::Tensor& m, const at::Tensor& v) {
    table.state = at::stack({at::zeros_like(m), m, v}).unsqueeze(0).contiguous();
    table.last_steps = at::full({1}, step, at::kInt);
  }
};

// Where the row is at the end by taking each step.
at::Tensor taken_step_by_step(const IdleSteps& idle, int64_t step, at::Tensor m, at::Tensor v) {
  at::Tensor value = at::zeros_like(m);
  for (int64_t s = step + 1; s <= idle.steps(); ++s) {
    m = m * idle.options().beta1;
    v = v * idle.options().beta2;
    const AdamStep of = idle.step(s);
    value = value + (-of.step_size * m) / (v.sqrt() / of.root + idle.options().epsilon);
  }
  return value;
}

// The moments that are hardest: m as large beside v as it can be, and v of each size.
struct HardMoments {
  at::Tensor v = at::pow(10.0, at::arange(-80, 9, at::kDouble) / 2);
  at::Tensor m = v.sqrt() * (0.1 / std::sqrt(0.001 * (1 - 0.81 / 0.999)));
};

TEST(AllRows, TakeEachStepWhereTheClosedFormIsTooCoarse) {
  IdleSteps idle({});
  for (int64_t step = 0; step < 700; ++step) idle.advance(0.01);
  const HardMoments of;
  int64_t replayed = 0;
  for (int64_t step = 1; step < 100; ++step) {
    const RestingRow row(step, of.m, of.v);
    const at::Tensor expected = taken_step_by_step(idle, step, of.m, of.v);
    const at::Tensor found = read_rows(row.table, row.ids, &idle)[0];
    // What a thousand of them may add up to is 1e-6.
    EXPECT_LT(largest_difference(expected, found), 1e-9) << step;
    replayed += idle.must_replay(step) ? 1 : 0;
  }
  // The first steps alone, where the bias corrections change quickly.
  EXPECT_GT(replayed, 5);
  EXPECT_LT(replayed, 20);
}

TEST(AllRows, RestAsMuchInOneReadAsInTheUpdateThatFollows) {
  IdleSteps idle({});
  for (int64_t step = 0; step < 700; ++step) idle.advance(0.01);
  const HardMoments of;
  for (const int64_t step : {1, 3, 30, 600, 699, 700}) {
    RestingRow row(step, of.m, of.v);
    const at::Tensor read = read_rows(row.table, row.ids, &idle);
    // A learning rate of 0 moves nothing more.
    const RowGradients none{.ids = row.ids, .gradients = at::zeros_like(read)};
    ASSERT_FALSE(update_all_rows(row.table, none, idle, 0));
    EXPECT_TRUE(at::equal(row.table.state[0][0], read[0])) << step;
    EXPECT_EQ(row.table.last_steps.item<int32_t>(), 701);
    const double decay = std::pow(0.9, 701 - step);
    EXPECT_LT(largest_difference(row.table.state[0][1], of.m * decay), 1e-12) << step;
  }
}

TEST(AllRows, AreReadInPlaceOfTheirIds) {
  LazilyDenseAdam lazy(at::randn({50, kWidth}, at::kDouble));
  for (int64_t step = 0; step < 20; ++step) {
    ASSERT_FALSE(
        lazy.step({at::arange(step, step + 9, at::kLong), at::randn({9, kWidth}, at::kDouble)})
    );
  }
  const at::Tensor ids = at::tensor({3, 17, 18, 28, 49}, at::kLong);
  EXPECT_TRUE(
      at::equal(read_rows(lazy.table(), ids, &lazy.idle()), lazy.values().index_select(0, ids))
  );
}

TEST(AllRows, WithABadGradientStayAsTheyAre) {
  LazilyDenseAdam lazy(at::randn({9, kWidth}, at::kFloat));
  const at::Tensor before = lazy.table().state.clone();
  at::Tensor gradients = at::ones({3, kWidth}, at::kFloat);
  gradients[1][kWidth - 1] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(lazy.step({at::tensor({2, 5, 7}, at::kLong), gradients}), 5);
  EXPECT_TRUE(at::equal(lazy.table().state[5], before[5]));
}

}  // namespace
}  // namespace gnn::embedding
