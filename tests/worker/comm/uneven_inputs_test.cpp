#include "worker/comm/uneven_inputs.h"

#include "tests/worker/comm/in_process_ranks.h"

#include <gtest/gtest.h>

namespace gnn::comm {
namespace {

TEST(ShadowPlan, FollowsFromBatchCounts) {
  const ShadowPlan plan({0, 3, 2});
  EXPECT_EQ(plan.total_steps(), 3);
  EXPECT_EQ(plan.active_ranks(1), 2);
  EXPECT_EQ(plan.active_ranks(2), 1);
  EXPECT_EQ(plan.buffer_source(0), 1);
}

TEST(ShadowPlan, WithoutAnyBatchHasNoSteps) {
  EXPECT_EQ(ShadowPlan({0, 0}).total_steps(), 0);
}

TEST(ShadowPlan, RefusesNegativeCounts) {
  EXPECT_THROW(ShadowPlan({1, -1}), c10::Error);
}

TEST(Join, EndsWhenTheLastRankIsOut) {
  run_ranks(3, [](const std::shared_ptr<Communicator>& comm) {
    Join join(comm);
    const std::vector<int64_t> batches{1, 0, 4};
    const int64_t mine = batches[static_cast<size_t>(comm->rank())];
    int64_t steps = 0;
    for (;; ++steps) {
      const auto step = require(join.handshake(steps < mine));
      if (step.active_ranks == 0) break;
      EXPECT_EQ(step.active_ranks, steps == 0 ? 2 : 1);
      EXPECT_EQ(step.buffer_source, steps == 0 ? 0 : 2);
    }
    EXPECT_EQ(steps, 4);
  });
}

}  // namespace
}  // namespace gnn::comm
