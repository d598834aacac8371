#include "worker/agent/store_link.h"

#include "tests/support/fake_clock.h"

#include <gtest/gtest.h>

#include <atomic>

namespace gnn::agent {
namespace {

TEST(StoreLink, WaitsBetweenAttemptsToJoinEvenIfAReportIsPending) {
  testing::FakeClock clock;
  AgentOptions options;
  options.node = 1;
  options.nodes = 2;
  std::atomic<int> tries = 0;
  {
    StoreLink link(
        options,
        [&](std::chrono::milliseconds) -> Result<std::shared_ptr<rendezvous::Store>> {
          ++tries;
          tries.notify_all();
          return fail(ErrorKind::Network, "nobody listens");
        },
        clock
    );
    link.report({.node = 1, .beat = 1});
    clock.await_waiters(1);
    EXPECT_EQ(tries, 1);
    clock.advance(std::chrono::milliseconds(100));
    tries.wait(1);
    EXPECT_EQ(tries, 2);
  }
}

}  // namespace
}  // namespace gnn::agent
