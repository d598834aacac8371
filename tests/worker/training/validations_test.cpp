#include "worker/training/validations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace gnn::training {
namespace {

progress::EpochReport epoch_with(int64_t epoch, double value, const char* metric = "auc") {
  progress::EpochReport report;
  report.epoch = epoch;
  report.validation = progress::Measure{.metric = metric, .value = value, .count = 10};
  report.global_step = 10 * (epoch + 1);
  return report;
}

// Of epochs 0, 1, ...
Validations after(const std::vector<double>& values, double min_delta = 0) {
  Validations validations("auc", min_delta);
  for (size_t i = 0; i < values.size(); ++i)
    validations.add(epoch_with(static_cast<int64_t>(i), values[i]));
  return validations;
}

TEST(Validations, AreBestWhereStrictlyBetterWhichNaNNeverIs) {
  EXPECT_FALSE(after({std::nan(""), std::nan("")}).best());
  const Validations validations = after({std::nan(""), 0.5, std::nan(""), 0.7, 0.7, 0.6});
  EXPECT_EQ(*validations.best(), (Validations::Best{.epoch = 3, .value = 0.7, .global_step = 40}));
  EXPECT_EQ(validations.without_improvement(), 2);
  EXPECT_EQ(after({0.5, std::nan(""), std::nan("")}).without_improvement(), 2);
}

// Many small rises add up to an improvement; meanwhile each is the best.
TEST(Validations, ImproveByMoreThanMinDeltaAlone) {
  const Validations rising = after({0.5, 0.504, 0.508}, 0.01);
  EXPECT_EQ(rising.without_improvement(), 2);
  EXPECT_EQ(rising.best()->epoch, 2);
  EXPECT_EQ(after({0.5, 0.504, 0.508, 0.512}, 0.01).without_improvement(), 0);
  EXPECT_EQ(after({0.25, 0.5}, 0.25).without_improvement(), 1) << "not by more than that";
}

TEST(Validations, CountAnEpochOnceAndPassOverOtherMetricsAndOtherTrainings) {
  Validations validations = after({0.5, 0.4});
  EXPECT_FALSE(validations.add(epoch_with(1, 0.4)));
  EXPECT_FALSE(validations.add(epoch_with(0, 0.9)));
  progress::EpochReport elsewhere = epoch_with(2, 0.9);
  elsewhere.global_step.reset();
  EXPECT_FALSE(validations.add(elsewhere));
  EXPECT_FALSE(validations.add(epoch_with(3, 0.9, "mrr")));
  progress::EpochReport unmeasured = epoch_with(4, 0);
  unmeasured.validation.reset();
  EXPECT_FALSE(validations.add(unmeasured));
  EXPECT_EQ(validations.without_improvement(), 1);
  EXPECT_EQ(validations.best()->epoch, 0);
}

}  // namespace
}  // namespace gnn::training
