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

// A reply comes every 4 s; of each `of`, the last says that it is `off` of the true time.
class Replies {
 public:
  Replies(FakeClock& machine, ServerClock& clock) : machine_(machine), clock_(clock) {}
  void come(int count, int of, Duration off) {
    for (int i = 1; i <= count; ++i) {
      machine_.advance(4s);
      clock_.see(true_time() + (i % of == 0 ? off : 0s), 0s);
    }
  }
  // The machine's clock is right at the start, and then off by `by`.
  void set_machine_off(Duration by) {
    machine_.jump_wall(by);
    off_ += by;
  }
  [[nodiscard]] TimePoint true_time() const { return machine_.now() - off_; }

 private:
  FakeClock& machine_;
  ServerClock& clock_;
  Duration off_{0};
};

class HostileClocks : public ::testing::Test {
 protected:
  [[nodiscard]] Duration now_off() const {
    return std::chrono::abs(clock_.now() - replies_.true_time());
  }
  [[nodiscard]] bool earliest_is_right() const {
    return clock_.read().earliest <= replies_.true_time();
  }
  [[nodiscard]] bool latest_is_right() const {
    return clock_.read().latest >= replies_.true_time();
  }

  FakeClock machine_;
  ServerClock clock_{machine_};
  Replies replies_{machine_, clock_};
};

TEST_F(HostileClocks, OneServerOfThreeDoesNotMoveTheTime) {
  for (const Duration off : {+1h, -1h}) {
    for (const Duration machine : {0h, +1h, -2h}) {
      replies_.set_machine_off(machine);
      replies_.come(60, 3, off);
      EXPECT_LE(now_off(), 1s);
      EXPECT_TRUE(earliest_is_right() && latest_is_right());
    }
  }
}

TEST_F(HostileClocks, WhatIsOffAtFirstIsNotCertainUntilItIsConfirmed) {
  replies_.come(5, 1, +1h);
  EXPECT_GE(now_off(), 1h - 1s) << "there is no other date yet";
  EXPECT_TRUE(earliest_is_right()) << "the machine's clock does not agree";
}

TEST_F(HostileClocks, UntilTheTimeIsConfirmedOneDateThatDiffersMakesItUncertain) {
  for (const Duration off : {+1h, -1h}) {
    ServerClock begun(machine_);
    const TimePoint right = machine_.now();
    replies_.set_machine_off(off);
    begun.see(right, 0s);
    for (int i = 0; i < 3; ++i) begun.see(right + off, 0s);
    const ServerClock::Reading reading = begun.read();
    EXPECT_GE(std::chrono::abs(reading.now - right), 1h - 1s);
    EXPECT_LE(reading.earliest, right + 1s);
    EXPECT_GE(reading.latest, right);
  }
}

TEST_F(HostileClocks, AMachineThatIsOffAsWellMakesNothingCertain) {
  for (const Duration off : {+1h, -1h}) {
    replies_.set_machine_off(off * 29 / 30);
    replies_.come(30, 100, 0h);
    replies_.come(16, 1, off);
    EXPECT_GE(now_off(), 1h - 1s);
    EXPECT_TRUE(earliest_is_right() && latest_is_right()) << "half of the dates are right";
    replies_.set_machine_off(-off * 29 / 30);
  }
}

TEST_F(HostileClocks, ABurstOfOneServersRepliesDoesNotMoveTheTime) {
  replies_.come(10, 100, 0h);
  for (int i = 0; i < 1000; ++i) clock_.see(replies_.true_time() + 1h, 0s);
  EXPECT_LE(now_off(), 1s);
  EXPECT_TRUE(earliest_is_right());
}

TEST_F(HostileClocks, ARightMachineHoldsBackWhatAServerThatWentWrongSays) {
  replies_.come(40, 100, 0h);
  replies_.come(20, 1, +1h);
  EXPECT_GE(now_off(), 1h - 1s);
  EXPECT_TRUE(earliest_is_right());
}

TEST_F(HostileClocks, TheTimeFollowsAServerThatIsSetRight) {
  replies_.come(40, 1, +1h);
  EXPECT_GE(now_off(), 1h - 1s);
  replies_.come(31, 100, 0h);
  EXPECT_LE(now_off(), 1s);
  EXPECT_TRUE(earliest_is_right() && latest_is_right());
}

TEST_F(HostileClocks, TheTimeIsCertainInTheEndWhateverTheMachineSays) {
  for (const Duration machine : {+1h, -2h}) {
    replies_.set_machine_off(machine);
    replies_.come(21, 100, 0h);
    const ServerClock::Reading reading = clock_.read();
    EXPECT_LE(reading.now - reading.earliest, 2s);
    EXPECT_LE(reading.latest - reading.now, 2s);
  }
}

TEST_F(HostileClocks, TheMachineAloneDecidesNothing) {
  replies_.come(3, 100, 0h);
  replies_.set_machine_off(+1h);
  EXPECT_LE(now_off(), 1s);
  EXPECT_TRUE(earliest_is_right());
  replies_.set_machine_off(-2h);
  EXPECT_LE(now_off(), 1s);
  EXPECT_TRUE(latest_is_right());
}

}  // namespace
}  // namespace gnn::client
