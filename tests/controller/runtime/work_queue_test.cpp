#include "controller/runtime/work_queue.h"

#include "common/random.h"
#include "controller/runtime/key_backoff.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fixed_random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace gnn::runtime {
namespace {

using namespace std::chrono_literals;

class WorkQueueTest : public ::testing::Test {
 protected:
  gnn::testing::FakeClock clock_;
  MetricsRegistry metrics_;
  WorkQueue<std::string> queue_{clock_, WorkQueueMetrics(metrics_, "test")};
};

TEST_F(WorkQueueTest, AKeyWaitsOnlyOnce) {
  queue_.add("a");
  queue_.add("a");
  queue_.add("b");
  EXPECT_EQ(queue_.size(), 2U);
  EXPECT_EQ(queue_.get(), "a");
  EXPECT_EQ(queue_.get(), "b");
}

TEST_F(WorkQueueTest, AKeyAddedWhileItIsWorkedOnComesAgainAfterwards) {
  queue_.add("a");
  EXPECT_EQ(queue_.get(), "a");
  queue_.add("a");
  EXPECT_EQ(queue_.size(), 0U);
  queue_.done("a");
  EXPECT_EQ(queue_.get(), "a");
  queue_.done("a");
  EXPECT_EQ(queue_.size(), 0U);
}

TEST_F(WorkQueueTest, StandsStillWhenNobodyComesForAKeyThatWaits) {
  queue_.add("a");
  clock_.advance(2h);
  EXPECT_FALSE(queue_.stands_still(1h)) << "nobody has begun";
  EXPECT_EQ(queue_.get(), "a");
  clock_.advance(2h);
  EXPECT_FALSE(queue_.stands_still(1h)) << "nothing waits";
  queue_.add("b");
  clock_.advance(1h);
  EXPECT_FALSE(queue_.stands_still(1h));
  clock_.advance(1s);
  EXPECT_TRUE(queue_.stands_still(1h));
  EXPECT_EQ(queue_.get(), "b");
  EXPECT_FALSE(queue_.stands_still(1h));
}

TEST_F(WorkQueueTest, ADelayedKeyComesWhenItsTimeHasCome) {
  queue_.add_after("a", 5s);
  std::optional<std::string> got;
  std::thread taker([&] { got = queue_.get(); });
  clock_.await_waiters(1);
  clock_.advance(4s);
  clock_.advance(1s);
  taker.join();
  EXPECT_EQ(got, "a");
}

TEST_F(WorkQueueTest, TheEarliestOfSeveralDelaysCounts) {
  queue_.add_after("a", 5s);
  queue_.add_after("a", 1s);
  queue_.add_after("a", 9s);
  clock_.advance(1s);
  EXPECT_EQ(queue_.get(), "a");
  queue_.done("a");
  clock_.advance(20s);
  queue_.add("b");
  EXPECT_EQ(queue_.get(), "b");
  EXPECT_EQ(queue_.size(), 0U);
}

TEST_F(WorkQueueTest, ShutDownWakesThoseWhoWait) {
  std::thread taker([&] { EXPECT_EQ(queue_.get(), std::nullopt); });
  queue_.shut_down();
  taker.join();
  queue_.add("a");
  EXPECT_EQ(queue_.get(), std::nullopt);
}

// A queue whose keys belong to whom their first letter names.
class SharedWorkQueueTest : public ::testing::Test {
 protected:
  gnn::testing::FakeClock clock_;
  MetricsRegistry metrics_;
  WorkQueue<std::string> queue_{
      clock_,
      WorkQueueMetrics(metrics_, "test"),
      {.owner_of = [](const std::string& key) { return key.substr(0, 1); }, .share = 2}
  };
};

TEST_F(SharedWorkQueueTest, OwnersTakeTurns) {
  for (const char* key : {"a1", "a2", "a3", "b1"}) queue_.add(key);
  EXPECT_EQ(queue_.get(), "a1");
  EXPECT_EQ(queue_.get(), "b1");
  EXPECT_EQ(queue_.get(), "a2");
}

TEST_F(SharedWorkQueueTest, AnOwnerWhoseShareIsWorkedOnWaitsAlone) {
  for (const char* key : {"a1", "a2", "a3", "b1", "b2"}) queue_.add(key);
  for (const char* key : {"a1", "b1", "a2", "b2"}) EXPECT_EQ(queue_.get(), key);
  EXPECT_EQ(queue_.held_back(), std::set<std::string>{"a"});
  std::optional<std::string> got;
  std::thread taker([&] { got = queue_.get(); });
  queue_.done("a1");
  taker.join();
  EXPECT_EQ(got, "a3");
}

TEST_F(SharedWorkQueueTest, AKeyAddedWhileItIsWorkedOnKeepsItsOwnersShare) {
  for (const char* key : {"a1", "a2"}) queue_.add(key);
  EXPECT_EQ(queue_.get(), "a1");
  EXPECT_EQ(queue_.get(), "a2");
  queue_.add("a1");
  queue_.add("a3");
  queue_.done("a1");
  EXPECT_EQ(queue_.get(), "a3");
  queue_.done("a2");
  EXPECT_EQ(queue_.get(), "a1");
}

TEST_F(SharedWorkQueueTest, TellsForAWhileOfAnOwnerWhoseKeysWaitedLongForItsShare) {
  for (const char* key : {"a1", "a2", "a3", "b1"}) queue_.add(key);
  for (const char* key : {"a1", "b1", "a2"}) EXPECT_EQ(queue_.get(), key);
  clock_.advance(11s);
  EXPECT_FALSE(queue_.was_held_back("a1"));
  queue_.done("a1");
  EXPECT_EQ(queue_.get(), "a3");
  EXPECT_TRUE(queue_.was_held_back("a1"));
  EXPECT_FALSE(queue_.was_held_back("b1"));
  clock_.advance(5min);
  EXPECT_FALSE(queue_.was_held_back("a1"));
  // What waits because nobody comes for it says nothing of shares.
  queue_.add("b2");
  clock_.advance(11s);
  queue_.done("b1");
  EXPECT_EQ(queue_.get(), "b2");
  EXPECT_FALSE(queue_.was_held_back("b1"));
}

TEST_F(SharedWorkQueueTest, KeysThatWaitForTheirOwnersShareAreNoSignOfStuckWorkers) {
  for (const char* key : {"a1", "a2", "a3"}) queue_.add(key);
  EXPECT_EQ(queue_.get(), "a1");
  EXPECT_EQ(queue_.get(), "a2");
  clock_.advance(2h);
  EXPECT_FALSE(queue_.stands_still(1h));
  queue_.add("b1");
  clock_.advance(2h);
  EXPECT_TRUE(queue_.stands_still(1h));
}

TEST_F(WorkQueueTest, CountsNothingBeforeWorkBegins) {
  queue_.add("a");
  queue_.add("b");
  clock_.advance(24h);
  EXPECT_NE(metrics_.expose().find("workqueue_depth{name=\"test\"} 0"), std::string::npos);
  EXPECT_NE(metrics_.expose().find("workqueue_adds_total{name=\"test\"} 0"), std::string::npos);
  queue_.begin();
  EXPECT_NE(metrics_.expose().find("workqueue_depth{name=\"test\"} 2"), std::string::npos);
  EXPECT_NE(metrics_.expose().find("workqueue_adds_total{name=\"test\"} 2"), std::string::npos);
  clock_.advance(1s);
  EXPECT_EQ(queue_.get(), "a");
  const std::string text = metrics_.expose();
  EXPECT_NE(text.find("workqueue_depth{name=\"test\"} 1"), std::string::npos);
  EXPECT_NE(text.find("workqueue_queue_duration_seconds_sum{name=\"test\"} 1\n"), std::string::npos)
      << text;
}

TEST_F(WorkQueueTest, ShowsStockMetrics) {
  queue_.begin();
  queue_.add("a");
  clock_.advance(2s);
  EXPECT_EQ(queue_.get(), "a");
  clock_.advance(3s);
  queue_.update_metrics();
  const std::string text = metrics_.expose();
  for (const char* line :
       {"workqueue_adds_total{name=\"test\"} 1",
        "workqueue_depth{name=\"test\"} 0",
        "workqueue_queue_duration_seconds_sum{name=\"test\"} 2",
        "workqueue_unfinished_work_seconds{name=\"test\"} 3",
        "workqueue_longest_running_processor_seconds{name=\"test\"} 3"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

TEST(WorkQueueThreads, NeverWorksOnAKeyTwiceAtATime) {
  SystemClock clock;
  MetricsRegistry metrics;
  WorkQueue<int> queue(clock, WorkQueueMetrics(metrics, "test"));
  std::array<std::atomic<int>, 5> busy{};
  std::array<std::atomic<int>, 5> added{};
  std::atomic<int> worked = 0;
  std::atomic<bool> overlap = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (const auto key = queue.get()) {
        const auto slot = static_cast<size_t>(*key);
        if (busy[slot].fetch_add(1) != 0) overlap = true;
        added[slot] = 0;
        ++worked;
        busy[slot].fetch_sub(1);
        queue.done(*key);
      }
    });
  }
  for (int i = 0; i < 20'000; ++i) {
    const int key = i % 5;
    added[static_cast<size_t>(key)] = 1;
    queue.add(key);
    if (i % 7 == 0) queue.add_after(key, 10us);
  }
  // What was added last is worked on after that.
  while (std::any_of(added.begin(), added.end(), [](const auto& flag) { return flag != 0; })) {
    std::this_thread::yield();
  }
  queue.shut_down();
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(overlap);
  EXPECT_GT(worked, 0);
}

TEST(KeyBackoff, GrowsForOneKeyAndForgets) {
  gnn::testing::FixedRandom random;
  KeyBackoff<std::string> backoff({.initial = 5ms, .factor = 2, .cap = 1s, .jitter = 0});
  EXPECT_EQ(backoff.next("a", random), 5ms);
  EXPECT_EQ(backoff.next("a", random), 10ms);
  EXPECT_EQ(backoff.next("b", random), 5ms);
  for (int i = 0; i < 40; ++i) static_cast<void>(backoff.next("a", random));
  EXPECT_EQ(backoff.next("a", random), 1s);
  backoff.forget("a");
  EXPECT_EQ(backoff.next("a", random), 5ms);
  EXPECT_EQ(backoff.size(), 2U);
}

}  // namespace
}  // namespace gnn::runtime
