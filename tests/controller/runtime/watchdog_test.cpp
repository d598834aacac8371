#include "controller/runtime/watchdog.h"

#include "tests/support/fake_clock.h"

#include <gtest/gtest.h>

#include <future>

namespace gnn::runtime {
namespace {

using namespace std::chrono_literals;

TEST(Watchdog, CallsWhenPatienceIsAtItsEnd) {
  gnn::testing::FakeClock clock;
  std::promise<void> called;
  const Watchdog watchdog(clock, 8s, [&] { called.set_value(); });
  clock.await_waiters(1);
  clock.advance(8s);
  called.get_future().wait();
}

TEST(Watchdog, IsSilentOnceItIsGone) {
  gnn::testing::FakeClock clock;
  bool called = false;
  {
    const Watchdog watchdog(clock, 8s, [&] { called = true; });
    clock.await_waiters(1);
    clock.advance(7s);
  }
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace gnn::runtime
