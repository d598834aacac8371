#include "controller/runtime/heartbeat.h"

#include "tests/support/fake_clock.h"

#include <gtest/gtest.h>

#include <chrono>

namespace gnn::runtime {
namespace {

using namespace std::chrono_literals;

TEST(Heartbeat, IsMissedOnlyAfterTheStepAndThePatience) {
  gnn::testing::FakeClock clock;
  Heartbeat heartbeat(clock);
  clock.advance(24h);
  EXPECT_FALSE(heartbeat.stands_still()) << "it has not begun";
  heartbeat.beat(1h);
  clock.advance(1h + kHeartbeatPatience);
  EXPECT_FALSE(heartbeat.stands_still());
  clock.advance(1s);
  EXPECT_TRUE(heartbeat.stands_still());
  heartbeat.beat();
  EXPECT_FALSE(heartbeat.stands_still());
  heartbeat.rest();
  clock.advance(24h);
  EXPECT_FALSE(heartbeat.stands_still());
}

}  // namespace
}  // namespace gnn::runtime
