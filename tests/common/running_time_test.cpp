#include "common/running_time.h"

#include <gtest/gtest.h>

namespace gnn {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(RunningTime, PassesWhileItsProcessRuns) {
  const MonotonicPoint start{hours(5)};
  RunningTime running(start);
  for (int i = 1; i <= 100; ++i)
    EXPECT_EQ(running.advance(start + milliseconds(300) * i), start + milliseconds(300) * i);
}

TEST(RunningTime, StandsStillWhileItsProcessIsFrozen) {
  const MonotonicPoint start{hours(5)};
  RunningTime running(start);
  EXPECT_LE(running.advance(start + hours(1)), start + RunningTime::kLongestStep);
  EXPECT_LE(running.advance(start + hours(9)), start + RunningTime::kLongestStep * 2);
}

}  // namespace
}  // namespace gnn
