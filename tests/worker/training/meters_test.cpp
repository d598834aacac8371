#include "worker/training/meters.h"

#include "tests/worker/comm/in_process_ranks.h"

#include <gtest/gtest.h>

namespace gnn::training {
namespace {

TEST(Reduce, GivesEveryRankTheSumsOfAll) {
  comm::run_ranks(3, [](const std::shared_ptr<comm::Communicator>& communicator) {
    const auto rank = static_cast<double>(communicator->rank());
    const progress::EpochSums mine{
        .loss = 0.5 + rank,
        .items = 10 * (communicator->rank() + 1),
        .correct = communicator->rank(),
    };
    const progress::EpochSums sums = comm::require(reduce(*communicator, mine));
    EXPECT_EQ(sums.loss, 4.5);
    EXPECT_EQ(sums.items, 60);
    EXPECT_EQ(sums.correct, 3);
  });
}

TEST(LapTimer, MeasuresEachLapAlone) {
  LapTimer outer;
  LapTimer laps;
  double sum = 0;
  for (int lap = 0; lap < 3; ++lap) {
    const double seconds = laps.lap();
    EXPECT_GE(seconds, 0);
    sum += seconds;
  }
  EXPECT_LE(sum, outer.lap()) << "no time is counted twice";
}

}  // namespace
}  // namespace gnn::training
