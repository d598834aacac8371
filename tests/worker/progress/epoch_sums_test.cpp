#include "worker/progress/epoch_sums.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gnn::progress {
namespace {

TEST(EpochSums, WeighsEachBatchByItsItems) {
  EpochSums sums;
  sums.add(1.0, 30, 20);
  sums.add(4.0, 10, 1);
  EXPECT_EQ(sums.average_loss(), 1.75) << "not the mean of the means, 2.5";
  EXPECT_EQ(sums.items, 40);
  EXPECT_EQ(sums.accuracy().correct, 21);
  EXPECT_EQ(sums.accuracy().total, 40);
}

TEST(EpochSums, HasNoAverageWithoutItems) {
  EXPECT_TRUE(std::isnan(EpochSums().average_loss()));
  EXPECT_TRUE(std::isnan(EpochSums().accuracy().value()));
}

}  // namespace
}  // namespace gnn::progress
