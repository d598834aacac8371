#include "common/stopwatch.h"

#include <gtest/gtest.h>

namespace gnn {
namespace {

TEST(SecondsSince, CountsInSeconds) {
  const auto now = std::chrono::steady_clock::now();
  EXPECT_GE(seconds_since(now), 0.0);
  EXPECT_GE(seconds_since(now - std::chrono::milliseconds(1500)), 1.5);
  EXPECT_LT(seconds_since(now + std::chrono::hours(1)), 0.0);
}

}  // namespace
}  // namespace gnn
