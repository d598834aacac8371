#include "common/ordered_prefetcher.h"

#include "common/guarded.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace gnn {
namespace {

using Prefetcher = OrderedPrefetcher<int64_t>;

TEST(OrderedPrefetcher, KeepsTheOrderWhateverFinishesFirst) {
  ThreadPool pool(4);
  // Item 0 waits until item 3 is made: out of order by force.
  std::promise<void> later;
  const auto gate = later.get_future().share();
  Prefetcher prefetcher(pool, {0, 50}, 6, [&](int64_t index) -> Result<int64_t> {
    if (index == 0) gate.wait();
    if (index == 3) later.set_value();
    return index * 10;
  });
  for (int64_t i = 0; i < 50; ++i) EXPECT_EQ(prefetcher.next().value(), i * 10);
  EXPECT_EQ(prefetcher.next().value(), std::nullopt);
  EXPECT_EQ(prefetcher.next().value(), std::nullopt);
}

TEST(OrderedPrefetcher, StartsWhereTold) {
  ThreadPool pool(2);
  Prefetcher prefetcher(pool, {7, 9}, 4, [](int64_t index) -> Result<int64_t> { return index; });
  EXPECT_EQ(prefetcher.next().value(), 7);
  EXPECT_EQ(prefetcher.next().value(), 8);
  EXPECT_EQ(prefetcher.next().value(), std::nullopt);
}

TEST(OrderedPrefetcher, EndsAtOnceWithoutItems) {
  ThreadPool pool(2);
  Prefetcher prefetcher(pool, {3, 3}, 4, [](int64_t index) -> Result<int64_t> { return index; });
  EXPECT_EQ(prefetcher.next().value(), std::nullopt);
}

TEST(OrderedPrefetcher, NeverRunsAheadFurtherThanItsWindow) {
  ThreadPool pool(4);
  std::atomic<int64_t> taken = 0;
  std::atomic<int64_t> furthest = 0;
  Prefetcher prefetcher(pool, {0, 300}, 3, [&](int64_t index) -> Result<int64_t> {
    const int64_t ahead = index - taken;
    int64_t seen = furthest;
    while (ahead > seen && !furthest.compare_exchange_weak(seen, ahead)) {
    }
    return index;
  });
  for (int64_t i = 0; i < 300; ++i) {
    ASSERT_EQ(prefetcher.next().value(), i);
    // One later than the prefetcher's own count: hence one more is allowed below.
    ++taken;
  }
  EXPECT_LE(furthest, 3);
}

TEST(OrderedPrefetcher, GivesAnErrorInItsPlaceAndThenOnlyIt) {
  ThreadPool pool(3);
  std::atomic<int64_t> started = 0;
  Prefetcher prefetcher(pool, {0, 1000}, 4, [&](int64_t index) -> Result<int64_t> {
    ++started;
    if (index == 5) return fail(ErrorKind::Data, "node 12 is not in the graph");
    return index;
  });
  for (int64_t i = 0; i < 5; ++i) ASSERT_EQ(prefetcher.next().value(), i);
  EXPECT_EQ(prefetcher.next().error().message, "node 12 is not in the graph");
  EXPECT_EQ(prefetcher.next().error().kind, ErrorKind::Data);
  prefetcher.stop();
  EXPECT_LE(started, 5 + 4);
}

TEST(OrderedPrefetcher, TurnsExceptionsIntoErrorsThatNameTheBatch) {
  ThreadPool pool(1);
  Prefetcher prefetcher(pool, {0, 3}, 2, [](int64_t index) -> Result<int64_t> {
    if (index == 1) throw std::runtime_error("no such row");
    return index;
  });
  EXPECT_EQ(prefetcher.next().value(), 0);
  EXPECT_EQ(prefetcher.next().error().message, "batch 1: no such row");
  EXPECT_EQ(prefetcher.next().error().kind, ErrorKind::Internal);
}

TEST(OrderedPrefetcher, TellsThatMemoryRanOutInTorchsWordsToo) {
  ThreadPool pool(1);
  Prefetcher prefetcher(pool, {0, 1}, 1, [](int64_t) -> Result<int64_t> {
    throw std::runtime_error("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8");
  });
  EXPECT_EQ(prefetcher.next().error().kind, ErrorKind::OutOfMemory);
}

TEST(OrderedPrefetcher, StopWakesAWaitingReader) {
  ThreadPool pool(1);
  std::promise<void> release;
  const auto gate = release.get_future().share();
  std::promise<void> making;
  Prefetcher prefetcher(pool, {0, 10}, 2, [&](int64_t index) -> Result<int64_t> {
    if (index == 0) making.set_value();
    gate.wait();
    return index;
  });
  auto reader = std::async(std::launch::async, [&] { return prefetcher.next(); });
  making.get_future().wait();
  auto stopper = std::async(std::launch::async, [&] { prefetcher.stop(); });
  EXPECT_EQ(reader.get().error().kind, ErrorKind::Cancelled);
  release.set_value();
  stopper.get();
}

TEST(OrderedPrefetcher, IsDestroyedCleanlyWithItemsUnread) {
  const auto token = std::make_shared<int>(1);
  {
    ThreadPool pool(3);
    OrderedPrefetcher<std::shared_ptr<int>> prefetcher(
        pool, {0, 100}, 5, [&](int64_t) -> Result<std::shared_ptr<int>> { return token; }
    );
    EXPECT_TRUE(prefetcher.next().value().has_value());
  }
  EXPECT_EQ(token.use_count(), 1);
}

TEST(OrderedPrefetcher, LeavesThePoolFreeForTheNext) {
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    Prefetcher prefetcher(pool, {0, 10}, 3, [](int64_t index) -> Result<int64_t> { return index; });
    for (int64_t i = 0; i < (round % 2 == 0 ? 10 : 4); ++i) ASSERT_EQ(prefetcher.next().value(), i);
  }
}

TEST(OrderedPrefetcher, HoldsNoThreadForAnItemThatWaits) {
  ThreadPool pool(1);
  Guarded<std::vector<std::function<void()>>> replies;
  Prefetcher prefetcher(
      pool,
      {0, 4},
      Prefetcher::Limits{.window = 4, .under_way = 4},
      [&](int64_t index, const Executor& executor, const Prefetcher::Done& done) {
        if (index == 3) return done(index);
        replies.lock()->push_back([=] {
          executor([=] {
            if (index == 2) throw std::runtime_error("no such row");
            done(index * 10);
          });
        });
        replies.notify_all();
      }
  );
  auto all = replies.lock();
  all.wait([](const auto& list) { return list.size() == 3; });
  for (const std::function<void()>& reply : {(*all)[2], (*all)[1], (*all)[0], (*all)[0]}) reply();
  EXPECT_EQ(prefetcher.next().value(), 0);
  EXPECT_EQ(prefetcher.next().value(), 10);
  EXPECT_EQ(prefetcher.next().error().message, "batch 2: no such row");
}

// Items of `size(index)` bytes, made by as many threads as may make them.
Prefetcher::Limits channel(int64_t bytes, int64_t under_way, std::function<int64_t(int64_t)> size) {
  return {
      .window = 100,
      .under_way = under_way,
      .bytes = bytes,
      .bytes_of = [size = std::move(size)](int64_t index) { return size(index); }
  };
}

TEST(OrderedPrefetcher, BeginsNothingForAnItemThatWaitsForRoom) {
  ThreadPool pool(2);
  std::atomic<int64_t> taken = 0;
  std::atomic<int64_t> furthest = 0;
  Prefetcher prefetcher(
      pool,
      {0, 300},
      channel(10, 2, [](int64_t) { return 4; }),
      [&](int64_t index, const Executor& /*executor*/, const Prefetcher::Done& done) {
        const int64_t ahead = index - taken;
        int64_t seen = furthest;
        while (ahead > seen && !furthest.compare_exchange_weak(seen, ahead)) {
        }
        done(index);
      }
  );
  for (int64_t i = 0; i < 300; ++i) {
    ASSERT_EQ(prefetcher.read_ahead().value(), i);
    // One later than the prefetcher's own count: hence one more is allowed below.
    prefetcher.taken();
    ++taken;
  }
  // Two in the channel, and beyond them two that wait or are made.
  EXPECT_LE(furthest, 2 + 2);
}

TEST(OrderedPrefetcher, GivesAnItemInItsTurnHoweverLateAndLargeItIs) {
  ThreadPool pool(2);
  // By index: items that two threads begin at once come here in either order.
  Guarded<std::map<int64_t, std::function<void()>>> begun;
  Prefetcher prefetcher(
      pool,
      {0, 400},
      // The first of each four is larger than the channel, which the others fill before it.
      channel(10, 4, [](int64_t index) { return index % 4 == 0 ? 1000 : 5; }),
      [&](int64_t index, const Executor& /*executor*/, const Prefetcher::Done& done) {
        if (index % 4 != 0) return done(index);
        begun.lock()->emplace(index, [=] { done(index); });
        begun.notify_all();
      }
  );
  const auto make = [&begun](int64_t index) {
    std::function<void()> make_it;
    {
      auto waiting = begun.lock();
      waiting.wait([=](const auto& items) { return items.contains(index); });
      make_it = waiting->extract(index).mapped();
    }
    make_it();
  };
  for (int64_t i = 0; i < 400; ++i) {
    if (i % 4 == 0) make(i);
    ASSERT_EQ(prefetcher.next().value(), i);
  }
  EXPECT_EQ(prefetcher.next().value(), std::nullopt);
}

TEST(OrderedPrefetcher, CountsAnItemThatIsReadAheadUntilItIsTaken) {
  for (int round = 0; round < 100; ++round) {
    ThreadPool pool(1);
    std::atomic<bool> taken = false;
    std::atomic<bool> was_taken = false;
    Prefetcher prefetcher(
        pool,
        {0, 3},
        channel(10, 1, [](int64_t) { return 10; }),
        [&](int64_t index, const Executor& /*executor*/, const Prefetcher::Done& done) {
          if (index == 2) was_taken = taken.load();
          done(index);
        }
    );
    ASSERT_EQ(prefetcher.read_ahead().value(), 0);
    ASSERT_EQ(prefetcher.read_ahead().value(), 1);  // which waits for room none the less
    taken = true;
    prefetcher.taken();
    ASSERT_EQ(prefetcher.read_ahead().value(), 2);
    ASSERT_TRUE(was_taken);
  }
}

TEST(OrderedPrefetcher, MeasuresWhereItWaited) {
  ThreadPool pool(1);
  std::promise<void> release;
  const auto gate = release.get_future().share();
  Prefetcher prefetcher(pool, {0, 1}, 1, [&](int64_t index) -> Result<int64_t> {
    gate.wait();
    return index;
  });
  auto reader = std::async(std::launch::async, [&] { return prefetcher.next(); });
  release.set_value();
  EXPECT_EQ(reader.get().value(), 0);
  EXPECT_GT(prefetcher.stalls().reader_stall_seconds, 0);
}

}  // namespace
}  // namespace gnn
