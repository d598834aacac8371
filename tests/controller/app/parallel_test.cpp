#include "controller/app/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace gnn::app {
namespace {

TEST(Parallel, RunsEachTaskOnceForEveryCaller) {
  Parallel parallel(3);
  std::vector<std::thread> callers;
  std::atomic<int> sum = 0;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        std::vector<int> seen(5);
        parallel.run(5, [&](size_t task) { ++seen[task]; });
        for (const int count : seen) sum += count;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 100 * 5);
}

// Whether two tasks of one caller end before the many of another that came first.
bool few_end_before_many() {
  constexpr int kMany = 100'000;
  Parallel parallel(1);
  std::promise<void> many_began;
  std::atomic<int> ended = 0;
  std::thread many([&] {
    parallel.run(kMany, [&](size_t task) {
      if (task == 0) many_began.set_value();
      ++ended;
    });
  });
  many_began.get_future().wait();
  parallel.run(2, [](size_t) {});
  const bool before = ended < kMany;
  many.join();
  return before;
}

TEST(Parallel, ACallerWithManyTasksHoldsUpNobody) {
  // Tried again, since the second caller may itself come too late.
  bool once = false;
  for (int tries = 0; tries < 10 && !once; ++tries) once = few_end_before_many();
  EXPECT_TRUE(once);
}

}  // namespace
}  // namespace gnn::app
