#include "worker/agent/stillness.h"

#include "common/running_time.h"

#include <gtest/gtest.h>

#include <chrono>

namespace gnn::agent {
namespace {

using std::chrono::milliseconds;

constexpr auto kLook = milliseconds(250);
constexpr MonotonicPoint kStart{};

TEST(Stillness, IsAHangOnlyBeyondItsLimit) {
  Stillness stillness(kStart, milliseconds(1'000));
  MonotonicPoint now = kStart;
  for (int look = 0; look < 4; ++look) EXPECT_FALSE(stillness.hangs(0, now += kLook)) << look;
  EXPECT_TRUE(stillness.hangs(0, now += kLook));
}

TEST(Stillness, EndsWithATurn) {
  Stillness stillness(kStart, milliseconds(1'000));
  MonotonicPoint now = kStart;
  for (int64_t turns = 1; turns < 100; ++turns) {
    EXPECT_FALSE(stillness.hangs(turns, now += kLook));
    EXPECT_FALSE(stillness.hangs(turns, now += 3 * kLook));
  }
}

TEST(Stillness, DoesNotCountAFreezeOfTheProcess) {
  Stillness stillness(kStart, milliseconds(1'000));
  RunningTime running(kStart);
  EXPECT_FALSE(stillness.hangs(0, running.advance(kStart + std::chrono::hours(1))));
}

}  // namespace
}  // namespace gnn::agent
