#include "worker/training/learning_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gnn::training {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr int64_t kLength = 12;

api::Training training_with(const api::LearningRateSchedule& schedule) {
  api::Training training;
  training.epochs = kLength;
  training.optimizer.learning_rate = {"0.1"};
  training.optimizer.schedule = schedule;
  return training;
}

LearningRate rate_of(const api::Training& training, int64_t steps_per_epoch) {
  auto made = LearningRate::create(training, steps_per_epoch);
  EXPECT_TRUE(made) << made.error().message;
  return *made;
}

std::vector<double> by_epoch(const api::LearningRateSchedule& schedule) {
  const LearningRate rate = rate_of(training_with(schedule), 5);
  std::vector<double> rates;
  for (int64_t epoch = 0; epoch < kLength; ++epoch)
    rates.push_back(rate.at({.epoch = epoch, .step = 3}));
  return rates;
}

// The same values by the steps of four epochs.
std::vector<double> by_step(api::LearningRateSchedule schedule) {
  schedule.interval = api::ScheduleInterval::Step;
  api::Training training = training_with(schedule);
  training.epochs = 4;
  const LearningRate rate = rate_of(training, 3);
  std::vector<double> rates;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    for (int64_t step = 0; step < 3; ++step)
      rates.push_back(rate.at({.epoch = epoch, .step = step}));
  }
  return rates;
}

struct Recorded {
  const char* name;
  api::LearningRateSchedule schedule;
  std::vector<double> rates;  // of an optimizer with lr=0.1, before each scheduler.step()
};

// From torch 2.11.0. "Warm" is SequentialLR of LinearLR(start_factor=0.01, total_iters=4) and the
// other, with the milestone 4.
std::vector<Recorded> recorded() {
  using enum api::ScheduleType;
  const api::LearningRateSchedule step{.type = Step, .step_size = 3, .gamma = api::Decimal{"0.5"}};
  const api::LearningRateSchedule cosine{
      .type = Cosine, .min_learning_rate = api::Decimal{"0.001"}
  };
  const auto warm = [](api::LearningRateSchedule schedule) {
    schedule.warmup = api::Warmup{.length = 4};
    return schedule;
  };
  return {
      {"StepLR(step_size=3, gamma=0.5)",
       step,
       {0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.0125, 0.0125, 0.0125}},
      {"CosineAnnealingLR(T_max=12, eta_min=0.001)",
       cosine,
       {0.10000000000000001,
        0.09831332840130888,
        0.093368257487329728,
        0.085501785668734107,
        0.075250000000000011,
        0.063311542732574791,
        0.05050000000000001,
        0.037688457267425236,
        0.025750000000000016,
        0.015498214331265903,
        0.0076317425126702851,
        0.0026866715986911243}},
      {"warm StepLR(step_size=3, gamma=0.5)",
       warm(step),
       {0.001, 0.02575, 0.0505, 0.07525, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025}},
      {"warm CosineAnnealingLR(T_max=8, eta_min=0.001)",
       warm(cosine),
       {0.001,
        0.025750000000000002,
        0.050500000000000003,
        0.075249999999999997,
        0.10000000000000001,
        0.096232036859308701,
        0.085501785668734107,
        0.069442829902071956,
        0.050500000000000003,
        0.031557170097928057,
        0.0154982143312659,
        0.0047679631406913059}},
      {"warm ConstantLR(factor=1)",
       warm({}),
       {0.001, 0.02575, 0.0505, 0.07525, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}},
  };
}

TEST(LearningRate, IsThatOfTorchsSchedulersByEpochAndByStepOrTheOptimizersWithoutOne) {
  for (const Recorded& expected : recorded()) {
    SCOPED_TRACE(expected.name);
    EXPECT_THAT(by_epoch(expected.schedule), Pointwise(DoubleNear(1e-15), expected.rates));
    EXPECT_THAT(by_step(expected.schedule), Pointwise(DoubleNear(1e-15), expected.rates));
  }
  api::Training training;
  training.optimizer.learning_rate = {"0.3"};
  EXPECT_EQ(rate_of(training, 7).at({.epoch = 4, .step = 6}), 0.3);
}

TEST(LearningRate, RefusesAWarmUpThatTheTrainingDoesNotOutlast) {
  api::LearningRateSchedule schedule{.interval = api::ScheduleInterval::Step};
  schedule.warmup = api::Warmup{.length = kLength * 5};
  const auto refused = LearningRate::create(training_with(schedule), 5);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(
      refused.error().message,
      HasSubstr("spec.training.optimizer.schedule.warmup.length: expected fewer than the 60 steps")
  );
  schedule.warmup->length -= 1;
  EXPECT_TRUE(LearningRate::create(training_with(schedule), 5));
}

}  // namespace
}  // namespace gnn::training
