#include "common/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace gnn {
namespace {

TEST(BoundedQueue, KeepsTheOrder) {
  BoundedQueue<int> queue(3);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue.push(i));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.pop().value(), i);
}

TEST(BoundedQueue, MovesItemsThatCannotBeCopied) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  ASSERT_TRUE(queue.push(std::make_unique<int>(7)));
  EXPECT_EQ(**queue.pop().value(), 7);
}

TEST(BoundedQueue, NeverHoldsMoreThanItsCapacity) {
  BoundedQueue<int> queue(2);
  std::atomic<int> pushed = 0;
  std::thread writer([&] {
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(queue.push(i));
      ++pushed;
    }
    queue.close();
  });
  for (int taken = 0;; ++taken) {
    EXPECT_LE(queue.size(), 2U);
    const auto item = queue.pop();
    if (!item.value().has_value()) {
      EXPECT_EQ(taken, 100);
      break;
    }
    EXPECT_EQ(**item, taken);
  }
  writer.join();
  EXPECT_EQ(pushed, 100);
}

TEST(BoundedQueue, LetsReadersDrainAClosedQueue) {
  BoundedQueue<int> queue(2);
  ASSERT_TRUE(queue.push(1));
  queue.close();
  EXPECT_EQ(queue.push(2).error().kind, ErrorKind::Cancelled);
  EXPECT_EQ(queue.pop().value(), 1);
  EXPECT_EQ(queue.pop().value(), std::nullopt);
  EXPECT_EQ(queue.pop().value(), std::nullopt);
}

TEST(BoundedQueue, GivesTheErrorAfterTheItemsBeforeIt) {
  BoundedQueue<int> queue(2);
  ASSERT_TRUE(queue.push(1));
  queue.fail_with({ErrorKind::Network, "peer gone"});
  EXPECT_EQ(queue.pop().value(), 1);
  EXPECT_EQ(queue.pop().error().message, "peer gone");
  EXPECT_EQ(queue.pop().error().kind, ErrorKind::Network);
}

TEST(BoundedQueue, CancelDropsWhatIsQueuedEvenAfterClose) {
  BoundedQueue<std::shared_ptr<int>> queue(2);
  const auto item = std::make_shared<int>(1);
  ASSERT_TRUE(queue.push(item));
  queue.close();
  queue.cancel();
  EXPECT_EQ(item.use_count(), 1);
  EXPECT_EQ(queue.pop().error().kind, ErrorKind::Cancelled);
}

TEST(BoundedQueue, CancelWakesAWaitingReaderAndAWaitingWriter) {
  BoundedQueue<int> empty(1);
  BoundedQueue<int> full(1);
  ASSERT_TRUE(full.push(1));
  auto reader = std::async(std::launch::async, [&] { return empty.pop().error().kind; });
  auto writer = std::async(std::launch::async, [&] { return full.push(2).error().kind; });
  empty.cancel();
  full.cancel();
  EXPECT_EQ(reader.get(), ErrorKind::Cancelled);
  EXPECT_EQ(writer.get(), ErrorKind::Cancelled);
}

TEST(BoundedQueue, HandsEachItemToExactlyOneOfManyReaders) {
  constexpr int kItems = 2000;
  BoundedQueue<int> queue(4);
  std::vector<std::atomic<int>> seen(kItems);
  std::vector<std::thread> threads;
  for (int reader = 0; reader < 3; ++reader) {
    threads.emplace_back([&] {
      while (true) {
        const auto item = queue.pop();
        if (!item.value().has_value()) return;
        ++seen[static_cast<size_t>(**item)];
      }
    });
  }
  std::atomic<int> next = 0;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 3; ++writer) {
    writers.emplace_back([&] {
      for (int i = next++; i < kItems; i = next++) ASSERT_TRUE(queue.push(i));
    });
  }
  for (auto& writer : writers) writer.join();
  queue.close();
  for (auto& thread : threads) thread.join();
  for (const auto& count : seen) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace gnn
