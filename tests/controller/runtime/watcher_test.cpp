#include "controller/runtime/watcher.h"

#include "tests/support/fixed_random.h"

#include <gtest/gtest.h>

namespace gnn::runtime {
namespace {

using namespace std::chrono_literals;
namespace in = watch_input;
using client::ApiErrorKind;
using client::WatchEventType;

class WatcherTest : public ::testing::Test {
 protected:
  WatchStep give(const WatchInput& input) { return watcher_.step(input, now_, random_); }
  WatchStep listed(const std::string& version) { return give(in::Listed{version}); }
  static client::ApiError error(ApiErrorKind kind) {
    client::ApiError error;
    error.kind = kind;
    return error;
  }

  gnn::testing::FixedRandom random_;
  MonotonicPoint now_{1h};
  Watcher watcher_;
};

TEST_F(WatcherTest, ListsThenWatchesFromTheListsVersion) {
  EXPECT_EQ(give(in::ListWanted{}).action, WatchAction::List);
  const WatchStep step = listed("7");
  EXPECT_EQ(step.action, WatchAction::OpenWatch);
  EXPECT_EQ(step.resource_version, "7");
  EXPECT_EQ(give(in::WatchOpened{}).action, WatchAction::Read);
}

TEST_F(WatcherTest, ABookmarkMovesTheVersion) {
  listed("7");
  give(in::WatchOpened{});
  EXPECT_EQ(give(in::EventSeen{WatchEventType::Bookmark, "9"}).action, WatchAction::Read);
  now_ += 5min;
  const WatchStep step = give(in::WatchEnded{});
  EXPECT_EQ(step.action, WatchAction::OpenWatch);
  EXPECT_EQ(step.resource_version, "9");
  EXPECT_TRUE(step.reason.empty());
}

TEST_F(WatcherTest, AnUnknownEventMovesNothing) {
  listed("7");
  give(in::WatchOpened{});
  give(in::EventSeen{WatchEventType::Unknown, "9"});
  EXPECT_EQ(watcher_.resource_version(), "7");
}

TEST_F(WatcherTest, RelistsAfterGone) {
  listed("7");
  give(in::WatchOpened{});
  const WatchStep step = give(in::ErrorSeen{error(ApiErrorKind::Gone)});
  EXPECT_EQ(step.action, WatchAction::List);
  EXPECT_EQ(step.reason, "gone");
}

TEST_F(WatcherTest, AServerThatAlwaysSaysGoneIsAskedSlower) {
  listed("7");
  EXPECT_EQ(give(in::WatchOpenFailed{error(ApiErrorKind::Gone)}).action, WatchAction::List);
  listed("8");
  Duration last{0};
  for (int i = 0; i < 4; ++i) {
    const WatchStep step = give(in::WatchOpenFailed{error(ApiErrorKind::Gone)});
    ASSERT_EQ(step.action, WatchAction::Wait);
    EXPECT_GT(step.wait, last);
    last = step.wait;
    EXPECT_EQ(give(in::Waited{}).action, WatchAction::List);
    listed("9");
  }
}

// A server that sends one event before each failure makes no progress.
TEST_F(WatcherTest, AServerThatSaysGoneAfterEachEventIsAskedSlower) {
  listed("7");
  give(in::WatchOpened{});
  give(in::EventSeen{WatchEventType::Added, "8"});
  EXPECT_EQ(give(in::ErrorSeen{error(ApiErrorKind::Gone)}).action, WatchAction::List);
  Duration last{0};
  for (int i = 0; i < 4; ++i) {
    listed("9");
    give(in::WatchOpened{});
    give(in::EventSeen{WatchEventType::Added, "10"});
    const WatchStep step = give(in::ErrorSeen{error(ApiErrorKind::Gone)});
    ASSERT_EQ(step.action, WatchAction::Wait);
    EXPECT_GT(step.wait, last);
    last = step.wait;
    EXPECT_EQ(give(in::Waited{}).action, WatchAction::List);
  }
}

TEST_F(WatcherTest, AWatchThatOnlyRepeatsAnEventAndEndsIsAFailure) {
  listed("7");
  Duration last{0};
  for (int i = 0; i < 4; ++i) {
    give(in::WatchOpened{});
    give(in::EventSeen{WatchEventType::Added, "7"});
    const WatchStep step = give(in::WatchEnded{});
    ASSERT_EQ(step.action, WatchAction::Wait);
    EXPECT_GT(step.wait, last);
    last = step.wait;
    EXPECT_EQ(give(in::Waited{}).action, WatchAction::OpenWatch);
  }
}

TEST_F(WatcherTest, WatchesThatEndAtOnceWaitAfterAWhileWhateverTheyBring) {
  listed("7");
  int at_once = 0;
  int waits = 0;
  for (int i = 0; i < 100; ++i) {
    give(in::WatchOpened{});
    give(in::EventSeen{WatchEventType::Added, std::to_string(8 + i)});
    const WatchStep step = give(in::WatchEnded{});
    at_once += step.action == WatchAction::OpenWatch ? 1 : 0;
    if (step.action != WatchAction::Wait) continue;
    ++waits;
    EXPECT_EQ(give(in::Waited{}).action, WatchAction::OpenWatch);
  }
  EXPECT_EQ(at_once, 16);
  EXPECT_EQ(waits, 84);
}

TEST_F(WatcherTest, AServerThatFailsToOpenWatchesForLongIsAskedForLists) {
  listed("7");
  for (int i = 0; i < 7; ++i) {
    give(in::WatchOpenFailed{error(ApiErrorKind::Server)});
    ASSERT_EQ(give(in::Waited{}).action, WatchAction::OpenWatch);
  }
  for (int i = 0; i < 3; ++i) {
    const WatchStep step = give(in::WatchOpenFailed{error(ApiErrorKind::Server)});
    EXPECT_GE(step.wait, 30s);
    ASSERT_EQ(give(in::Waited{}).action, WatchAction::List);
    EXPECT_EQ(listed("8").action, WatchAction::OpenWatch);
  }
}

TEST_F(WatcherTest, RefusedConnectionsWaitAndWatchAgainFromTheSameVersion) {
  listed("7");
  Duration last{0};
  for (int i = 0; i < 10; ++i) {
    const WatchStep step = give(in::WatchOpenFailed{error(ApiErrorKind::Network)});
    ASSERT_EQ(step.action, WatchAction::Wait);
    EXPECT_GE(step.wait, last);
    EXPECT_LE(step.wait, 60s);
    last = step.wait;
    const WatchStep again = give(in::Waited{});
    EXPECT_EQ(again.action, WatchAction::OpenWatch);
    EXPECT_EQ(again.resource_version, "7");
  }
  EXPECT_EQ(last, 30s);
}

TEST_F(WatcherTest, WaitsAsLongAsTheServerAsks) {
  listed("7");
  client::ApiError busy = error(ApiErrorKind::TooManyRequests);
  busy.retry_after = 20s;
  EXPECT_EQ(give(in::WatchOpenFailed{busy}).wait, 20s);
}

TEST_F(WatcherTest, AForbiddenWatchListsAgainSoThatTheReasonIsSeen) {
  listed("7");
  EXPECT_EQ(give(in::WatchOpenFailed{error(ApiErrorKind::Forbidden)}).action, WatchAction::Wait);
  EXPECT_EQ(give(in::Waited{}).action, WatchAction::List);
}

TEST_F(WatcherTest, ABrokenWatchGoesOnWhereItWas) {
  listed("7");
  give(in::WatchOpened{});
  give(in::EventSeen{WatchEventType::Added, "8"});
  const WatchStep step = give(in::WatchBroken{{ErrorKind::Network, "reset"}});
  EXPECT_EQ(step.action, WatchAction::OpenWatch);
  EXPECT_EQ(step.resource_version, "8");
  EXPECT_EQ(step.reason, "broken");
}

TEST_F(WatcherTest, ADeadStreamIsCountedAndWatchedAgain) {
  listed("7");
  give(in::WatchOpened{});
  now_ += 90s;
  const WatchStep step = give(in::WatchBroken{{ErrorKind::Timeout, "silence"}});
  EXPECT_EQ(step.action, WatchAction::OpenWatch);
  EXPECT_EQ(step.reason, "silent");
}

TEST_F(WatcherTest, AnUnreadableStreamListsAgain) {
  listed("7");
  give(in::WatchOpened{});
  EXPECT_EQ(give(in::WatchBroken{{ErrorKind::Data, "junk"}}).action, WatchAction::Wait);
  EXPECT_EQ(give(in::Waited{}).action, WatchAction::List);
}

TEST_F(WatcherTest, AWatchThatEndsAtOnceWithoutEventsIsAFailure) {
  listed("7");
  give(in::WatchOpened{});
  const WatchStep step = give(in::WatchEnded{});
  EXPECT_EQ(step.action, WatchAction::Wait);
  EXPECT_EQ(step.reason, "too_short");
}

TEST_F(WatcherTest, EventsAndHealthyWatchesForgetFailures) {
  listed("7");
  for (int i = 0; i < 6; ++i) {
    give(in::WatchOpenFailed{error(ApiErrorKind::Network)});
    give(in::Waited{});
  }
  give(in::WatchOpened{});
  now_ += 3min;
  give(in::WatchEnded{});
  EXPECT_EQ(give(in::WatchOpenFailed{error(ApiErrorKind::Network)}).wait, 800ms);
}

}  // namespace
}  // namespace gnn::runtime
