#include "controller/client/server_clock.h"

#include "tests/support/fake_clock.h"

#include <gtest/gtest.h>

namespace gnn::client {
namespace {

using namespace std::chrono_literals;
using gnn::testing::FakeClock;

TEST(HttpDate, IsReadToTheSecond) {
  EXPECT_EQ(parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT"), TimePoint());
  EXPECT_EQ(parse_http_date("Tue, 14 Nov 2023 22:13:20 GMT"), TimePoint(1'700'000'000s));
  EXPECT_EQ(parse_http_date("Thu, 29 Feb 2024 23:59:59 GMT"), TimePoint(1'709'251'199s));
}

TEST(HttpDate, IsNothingWhereItIsMalformed) {
  for (const char* text :
       {"",
        "Tue, 14 Nov 2023 22:13:20",
        "Tue, 14 Nov 2023 22:13:20 CET",
        "Tue, 14 Nov 2023 24:13:20 GMT",
        "Tue, 14 nov 2023 22:13:20 GMT",
        "Tue, 31 Nov 2023 22:13:20 GMT",
        "Tue, +4 Nov 2023 22:13:20 GMT",
        "Tue, -4 Nov 2023 22:13:20 GMT",
        "Tue, 14 Nov 2023 -1:13:20 GMT",
        "Tue, 1  Nov 2023 22:13:20 GMT",
        "Tue, 14 Nov 9999 22:13:20 GMT",
        "Tuesday, 14-Nov-23 22:13:20 GMT"}) {
    EXPECT_EQ(parse_http_date(text), std::nullopt) << text;
  }
}

TEST(ServerClockTest, IsTheMachinesUntilAReplyCame) {
  FakeClock machine;
  const ServerClock clock(machine);
  machine.advance(90s);
  EXPECT_EQ(clock.now(), machine.now());
}

TEST(ServerClockTest, FollowsTheServerWhicheverWayTheMachineIsOff) {
  FakeClock machine;
  const TimePoint true_time = machine.now();
  for (const Duration off : {-1h, +1h}) {
    machine.jump_wall(off);
    ServerClock clock(machine);
    machine.jump_wall(-off);
    EXPECT_EQ(clock.now(), true_time + off);
    clock.see(true_time, 0s);
    EXPECT_LE(std::chrono::abs(clock.now() - true_time), 1s);
  }
}

TEST(ServerClockTest, IsNotMovedByAJumpOfTheMachines) {
  FakeClock machine;
  const ServerClock clock(machine);
  const TimePoint before = clock.now();
  machine.jump_wall(-1h);
  machine.advance(10s);
  EXPECT_EQ(clock.now(), before + 10s);
}

TEST(ServerClockTest, IsNotMovedByAReplyThatCameLate) {
  FakeClock machine;
  ServerClock clock(machine);
  const TimePoint date = clock.now();
  machine.advance(20s);
  clock.see(date, 20s);
  EXPECT_EQ(clock.now(), date + 20s);
}

TEST(ServerClockTest, IsNotMovedByTheFractionThatADateLeavesOut) {
  FakeClock machine;
  machine.advance(900ms);
  ServerClock clock(machine);
  clock.see(std::chrono::floor<std::chrono::seconds>(clock.now()), 0s);
  EXPECT_EQ(clock.now(), machine.now());
}

}  // namespace
}  // namespace gnn::client
