#include "common/guarded.h"

#include "tests/support/fake_clock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace gnn {
namespace {

TEST(Guarded, CountsFromManyThreads) {
  Guarded<int> counter(0);
  constexpr int kThreads = 8;
  constexpr int kRounds = 1000;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) ++*counter.lock();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(*counter.lock(), kThreads * kRounds);
}

TEST(Guarded, WaitSeesWhatAnotherThreadSet) {
  Guarded<bool> flag(false);
  std::thread setter([&] {
    *flag.lock() = true;
    flag.notify_all();
  });
  {
    auto locked = flag.lock();
    locked.wait([](bool set) { return set; });
    EXPECT_TRUE(*locked);
  }
  setter.join();
}

TEST(Guarded, WaitUntilGivesUpAtTheDeadline) {
  testing::FakeClock clock;
  Guarded<bool> flag(false);
  bool seen = true;
  std::thread waiter([&] {
    auto locked = flag.lock();
    seen = locked.wait_until(clock, clock.monotonic() + std::chrono::seconds(1), [](bool set) {
      return set;
    });
  });
  clock.await_waiters(1);
  clock.advance(std::chrono::seconds(1));
  waiter.join();
  EXPECT_FALSE(seen);
}

}  // namespace
}  // namespace gnn
