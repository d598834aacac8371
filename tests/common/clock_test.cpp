#include "common/clock.h"

#include "tests/support/fake_clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace gnn {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(SystemClock, MonotonicTimeDoesNotGoBack) {
  const SystemClock clock;
  const auto first = clock.monotonic();
  EXPECT_GE(clock.monotonic(), first);
}

TEST(SystemClock, WaitReturnsAtThePastDeadlineAndWhenReady) {
  SystemClock clock;
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  EXPECT_FALSE(clock.wait_until(lock, condition, clock.monotonic() - seconds(1), [] {
    return false;
  }));
  EXPECT_TRUE(clock.wait_until(lock, condition, MonotonicPoint::max(), [] { return true; }));
}

TEST(FakeClock, AdvanceWakesAWaiterWhoseDeadlinePassed) {
  testing::FakeClock clock;
  std::mutex mutex;
  std::condition_variable condition;
  bool ready_on_return = true;
  std::thread waiter([&] {
    std::unique_lock lock(mutex);
    ready_on_return = clock.wait_until(lock, condition, clock.monotonic() + milliseconds(500), [] {
      return false;
    });
  });
  clock.await_waiters(1);
  clock.advance(milliseconds(499));
  clock.advance(milliseconds(1));
  waiter.join();
  EXPECT_FALSE(ready_on_return);
}

TEST(FakeClock, AWallClockJumpLeavesMonotonicTimeAlone) {
  testing::FakeClock clock;
  const auto wall = clock.now();
  const auto monotonic = clock.monotonic();
  clock.jump_wall(-hours(1));
  EXPECT_EQ(clock.now(), wall - hours(1));
  EXPECT_EQ(clock.monotonic(), monotonic);
}

}  // namespace
}  // namespace gnn
