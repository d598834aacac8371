#include "worker/embedding/idle_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace gnn::embedding {
namespace {

IdleSteps after(int64_t steps, double learning_rate, const AdamOptions& options = {}) {
  IdleSteps idle(options);
  for (int64_t i = 0; i < steps; ++i) idle.advance(learning_rate);
  return idle;
}

double closed_form(const IdleMove& move, double m, double v) {
  const double inverse = 1 / (std::sqrt(v) + move.offset);
  const double z = 2 * move.offset * inverse - 1;
  double sum = 0;
  for (int i = IdleMove::kTerms - 1; i >= 0; --i)
    sum = sum * z + move.coefficients[static_cast<size_t>(i)];
  return m * inverse * sum;
}

double step_by_step(const IdleSteps& idle, int64_t step, double m, double v) {
  double moved = 0;
  for (int64_t s = step + 1; s <= idle.steps(); ++s) {
    m *= idle.options().beta1;
    v *= idle.options().beta2;
    const AdamStep of = idle.step(s);
    moved += of.step_size * m / (std::sqrt(v) / of.root + idle.options().epsilon);
  }
  return moved;
}

// The largest error over all sizes of v beside epsilon, with m as large as it can be.
double worst_error(const IdleSteps& idle, int64_t step) {
  const AdamOptions& of = idle.options();
  const double shrink2 = of.beta1 * of.beta1 / of.beta2;
  const double ratio = (1 - of.beta1) / std::sqrt((1 - of.beta2) * (1 - shrink2));
  double worst = 0;
  for (double power = -20; power < 6; power += 0.125) {
    const double root = std::pow(10.0, power);
    const double expected = step_by_step(idle, step, ratio * root, root * root);
    const double found = closed_form(idle.since(step), ratio * root, root * root);
    worst = std::max(worst, std::abs(expected - found));
  }
  return worst;
}

constexpr double kRounding = 1e-12;

TEST(IdleMove, KeepsItsErrorAndReachesIt) {
  for (const AdamOptions& options :
       {AdamOptions{}, AdamOptions{0.5, 0.9, 1e-8}, AdamOptions{0.95, 0.999, 1e-6}}) {
    for (const int64_t steps : {13, 40, 900}) {
      const IdleSteps idle = after(steps, 0.1, options);
      for (const int64_t step : {1, 2, 5, 10, 12}) {
        const double error = worst_error(idle, step);
        EXPECT_LE(error, idle.since(step).error * 1.001 + kRounding) << step << " of " << steps;
        EXPECT_GE(error, idle.since(step).error * 0.99 - kRounding) << step << " of " << steps;
      }
    }
  }
}

TEST(IdleMove, FollowsALearningRateThatChanges) {
  IdleSteps idle({});
  for (int64_t i = 0; i < 600; ++i) idle.advance(i % 7 == 3 ? 0 : 0.1 / static_cast<double>(1 + i));
  for (const int64_t step : {20, 100, 300, 590, 599})
    EXPECT_LT(worst_error(idle, step), idle.since(step).error * 1.001 + kRounding) << step;
}

TEST(IdleMove, IsNothingInTheStepItself) {
  const IdleSteps idle = after(30, 0.1);
  EXPECT_EQ(closed_form(idle.since(30), 1, 1), 0);
  EXPECT_FALSE(idle.must_replay(30));
}

TEST(IdleSteps, ReplayTheFirstStepsAlone) {
  const auto replayed = [](double learning_rate) {
    const IdleSteps idle = after(1000, learning_rate);
    int64_t last = 0;
    for (int64_t step = 1; step <= 1000; ++step) {
      if (!idle.must_replay(step)) continue;
      EXPECT_EQ(step, last + 1);
      last = step;
    }
    return last;
  };
  EXPECT_EQ(replayed(0.001), 3);
  EXPECT_EQ(replayed(0.01), 11);
  EXPECT_EQ(replayed(0.1), 25);
}

TEST(IdleSteps, StayExactOverAHundredThousandSteps) {
  const IdleSteps idle = after(100'000, 0.01);
  for (const int64_t step : {1000, 50'000, 99'000, 99'990}) {
    EXPECT_LT(idle.since(step).error, 1e-15) << step;
    for (const double root : {1e-20, 1e-8, 1.0}) {
      EXPECT_NEAR(
          closed_form(idle.since(step), root, root * root),
          step_by_step(idle, step, root, root * root),
          kRounding
      ) << step;
    }
  }
}

TEST(IdleSteps, RefuseRowsThatNeverRest) {
  EXPECT_ANY_THROW(IdleSteps({.beta1 = 0.99, .beta2 = 0.9}));
  EXPECT_ANY_THROW(IdleSteps({.beta1 = 0.9, .beta2 = 1}));
  EXPECT_ANY_THROW(IdleSteps({.epsilon = 0}));
}

}  // namespace
}  // namespace gnn::embedding
