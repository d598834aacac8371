#include "controller/app/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

namespace gnn::app {
namespace {

TEST(Parallel, RunsEachTaskOnceForEveryCaller) {
  Parallel parallel(3, 2);
  std::vector<std::thread> callers;
  std::atomic<int> sum = 0;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        std::vector<int> seen(5);
        parallel.run("", 5, [&](size_t task) { ++seen[task]; });
        for (const int count : seen) sum += count;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 100 * 5);
}

// However late the second caller comes, it comes before the last of the many: until its tasks have ended, each of the
// many waits a little for that.
TEST(Parallel, ACallerWithManyTasksHoldsUpNobody) {
  constexpr int kMany = 5000;
  Parallel parallel(1, 1);
  std::promise<void> many_began;
  std::promise<void> few_ended;
  const std::shared_future<void> few_ended_seen = few_ended.get_future().share();
  std::atomic<int> ended = 0;
  std::thread many([&] {
    parallel.run("", kMany, [&](size_t task) {
      if (task == 0) many_began.set_value();
      few_ended_seen.wait_for(std::chrono::milliseconds(1));
      ++ended;
    });
  });
  many_began.get_future().wait();
  parallel.run("", 2, [](size_t) {});
  EXPECT_LT(ended, kMany);
  few_ended.set_value();
  many.join();
}

TEST(Parallel, AnOwnerWhoseTasksDoNotReturnLeavesOthersAQuarterOfTheThreads) {
  Parallel parallel(8, 6);
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::atomic<int> begun = 0;
  std::vector<std::thread> slow;
  for (int i = 0; i < 6; ++i) {
    slow.emplace_back([&] {
      parallel.run("slow", 100, [&](size_t) {
        ++begun;
        ended.wait();
      });
    });
  }
  while (begun < 6) std::this_thread::yield();
  std::atomic<int> others = 0;
  parallel.run("other", 50, [&](size_t) { ++others; });
  EXPECT_EQ(others, 50);
  EXPECT_EQ(begun, 6);
  end.set_value();
  for (std::thread& caller : slow) caller.join();
  EXPECT_EQ(begun, 600);
}

TEST(Parallel, RunsTasksOnTheCallersThreadIfItHasNone) {
  Parallel parallel(0, 0);
  std::vector<std::thread::id> threads(3);
  parallel.run("one", threads.size(), [&](size_t i) { threads[i] = std::this_thread::get_id(); });
  EXPECT_EQ(threads, std::vector<std::thread::id>(3, std::this_thread::get_id()));
}

}  // namespace
}  // namespace gnn::app
