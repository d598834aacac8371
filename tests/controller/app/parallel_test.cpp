#include "controller/app/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
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

}  // namespace
}  // namespace gnn::app
