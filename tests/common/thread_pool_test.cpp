#include "common/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <vector>

namespace gnn {
namespace {

TEST(ThreadPool, GivesResultsThroughFutures) {
  ThreadPool pool(2);
  std::vector<std::future<int>> results;
  for (int i = 0; i < 100; ++i) results.push_back(pool.submit([i] { return i * i; }));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(results[static_cast<size_t>(i)].get(), i * i);
}

TEST(ThreadPool, GivesExceptionsThroughFutures) {
  ThreadPool pool(1);
  auto result = pool.submit([]() -> int { throw std::runtime_error("disk full"); });
  EXPECT_THROW(result.get(), std::runtime_error);
  EXPECT_EQ(pool.submit([] { return 1; }).get(), 1);
}

TEST(ThreadPool, StopDropsWhatHasNotStarted) {
  ThreadPool pool(1);
  std::promise<void> started;
  std::promise<void> release;
  auto running = pool.submit([&, gate = release.get_future().share()] {
    started.set_value();
    gate.wait();
    return 1;
  });
  auto waiting = pool.submit([] { return 2; });
  started.get_future().wait();
  pool.stop();
  release.set_value();
  EXPECT_EQ(running.get(), 1);
  EXPECT_THROW(waiting.get(), std::future_error);
  EXPECT_THROW(pool.submit([] { return 3; }).get(), std::future_error);
}

TEST(ThreadPool, ParallelForCoversEveryIndexOnce) {
  ThreadPool pool(3);
  std::vector<std::atomic<int>> seen(1001);
  pool.parallel_for(1001, 10, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
  });
  for (const auto& count : seen) EXPECT_EQ(count, 1);
}

TEST(ThreadPool, ParallelForThrowsTheErrorOfItsBody) {
  ThreadPool pool(2);
  const auto body = [](int64_t begin, int64_t) {
    if (begin == 30) throw std::out_of_range("row 30");
  };
  EXPECT_THROW(pool.parallel_for(100, 10, body), std::out_of_range);
}

TEST(ThreadPool, ParallelForEndsWhileAllThreadsAreBusy) {
  ThreadPool pool(1);
  std::promise<void> release;
  auto busy = pool.submit([gate = release.get_future().share()] { gate.wait(); });
  int64_t covered = 0;
  pool.parallel_for(10, 1, [&](int64_t begin, int64_t end) { covered += end - begin; });
  EXPECT_EQ(covered, 10);
  release.set_value();
  busy.wait();
}

TEST(ThreadPool, ParallelForWorksWithoutThreadsAndWithoutWork) {
  ThreadPool pool(0);
  int64_t covered = 0;
  pool.parallel_for(10, 3, [&](int64_t begin, int64_t end) { covered += end - begin; });
  EXPECT_EQ(covered, 10);
  pool.parallel_for(0, 3, [&](int64_t, int64_t) { ADD_FAILURE() << "there is nothing to do"; });
}

}  // namespace
}  // namespace gnn
