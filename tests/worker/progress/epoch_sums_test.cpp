#include "worker/progress/epoch_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace gnn::progress {
namespace {

TEST(EpochSums, WeighsEachBatchByItsItems) {
  EpochSums sums;
  sums.add(1.0, 30, 20);
  sums.add(4.0, 10, 1);
  EXPECT_EQ(sums.average_loss(), 1.75) << "not the mean of the means, 2.5";
  EXPECT_EQ(sums.items, 40);
  EXPECT_EQ(sums.measure(), accuracy(21, 40));
}

TEST(EpochSums, AddUpToTheSameBitsInAnyOrder) {
  EpochSums forward;
  EpochSums backward;
  constexpr int64_t kBatches = 1000;
  const auto loss_of = [](int64_t batch) { return 0.1 / static_cast<double>(batch + 1); };
  for (int64_t batch = 0; batch < kBatches; ++batch) {
    forward.add(loss_of(batch), 7, 0);
    backward.add(loss_of(kBatches - 1 - batch), 7, 0);
  }
  EXPECT_EQ(forward.loss, backward.loss);
  EXPECT_NEAR(forward.average_loss(), 0.1 * 7.485470860550345 / kBatches, 1e-9);
}

TEST(EpochSums, KeepsALossThatIsNotFinite) {
  for (const double loss : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    EpochSums sums;
    sums.add(loss, 3, 0);
    EXPECT_FALSE(std::isfinite(sums.average_loss()));
  }
}

TEST(EpochSums, HasNoAverageWithoutItems) {
  EXPECT_TRUE(std::isnan(EpochSums().average_loss()));
  EXPECT_TRUE(std::isnan(EpochSums().measure().value));
}

}  // namespace
}  // namespace gnn::progress
