#include "worker/tasks/device_rows.h"

#include "worker/progress/console_sink.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gnn::tasks {
namespace {

using ::testing::HasSubstr;

api::GnnJobSpec spec_with(std::vector<int64_t> fanout) {
  api::GnnJobSpec spec;
  spec.sampling.emplace().fanout = std::move(fanout);
  spec.training.batch_size = 10;
  return spec;
}

TEST(DevicePlan, CountsAllRowsAndTheMostThatABatchCanHave) {
  const at::Tensor rows = at::zeros({1000, 25}, at::kFloat);
  const DevicePlan plan = plan_device_rows(rows, spec_with({3, 2}));
  EXPECT_EQ(plan.rows_bytes, 100'000);
  EXPECT_EQ(plan.batch_bytes, (10 + 30 + 60) * 100);
  EXPECT_EQ(plan.batches, 4);
  EXPECT_EQ(plan.bytes(), 140'000);
}

TEST(DevicePlan, CountsDrawsOfEveryNodeThatIsSeenAgain) {
  api::GnnJobSpec spec = spec_with({3, 2});
  spec.sampling->rule = api::SamplingRule::AllSeen;
  const DevicePlan plan = plan_device_rows(at::zeros({1000, 25}, at::kFloat), spec);
  EXPECT_EQ(plan.batch_bytes, (10 + 30 + 80) * 100);
}

TEST(DevicePlan, ABatchHasNoMoreNodesThanTheGraph) {
  const at::Tensor rows = at::zeros({50, 25}, at::kHalf);
  for (const auto& fanout :
       {std::vector<int64_t>{3, 2}, {-1}, {1000000, 1000000, 1000000, 1000000}})
    EXPECT_EQ(plan_device_rows(rows, spec_with(fanout)).batch_bytes, 50 * 50);
  EXPECT_EQ(plan_device_rows(rows, spec_with({0, 7})).batch_bytes, 10 * 50);
}

TEST(DevicePlan, KnowsTheFanoutOfEvaluationsAndThePrefetchedBatches) {
  const at::Tensor rows = at::zeros({1000, 25}, at::kFloat);
  api::GnnJobSpec spec = spec_with({1});
  spec.training.evaluation.fanout = {4};
  spec.sampling->prefetch = 7;
  const DevicePlan plan = plan_device_rows(rows, spec);
  EXPECT_EQ(plan.batch_bytes, (10 + 40) * 100);
  EXPECT_EQ(plan.batches, 9);
}

TEST(DevicePlan, IsRefusedByNameWithWhatItNeedsAndWhatIsFree) {
  DevicePlan plan{
      .rows_bytes = 1000, .batch_bytes = 100, .batches = 4, .free_bytes = 1400, .device = "cuda:1"
  };
  EXPECT_TRUE(check(plan));
  plan.free_bytes = 1399;
  const Status refused = check(plan);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(refused.error().message, HasSubstr("spec.features.memory"));
  EXPECT_THAT(refused.error().message, HasSubstr("rows on cuda:1"));
  EXPECT_THAT(refused.error().message, HasSubstr("4 batches"));
}

struct Scene {
  SilentProgressBar loading;
  progress::NullSink sink;
  StopToken stop;
  TaskContext context{
      .communicator = comm::make_single_communicator(),
      .incarnation = {},
      .loading = loading,
      .progress = sink,
      .stop = stop
  };
};

TEST(RowsOnDevice, AreNoneByDefaultAndNeverOnAnotherDevice) {
  Scene scene;
  const at::Tensor rows = at::zeros({4, 2});
  api::GnnJobSpec spec = spec_with({1});
  EXPECT_FALSE(rows_on_device(rows, spec, scene.context)->defined());
  spec.features.emplace();
  EXPECT_FALSE(rows_on_device(rows, spec, scene.context)->defined());
  spec.features->memory = api::FeatureMemory::Device;
  const auto refused = rows_on_device(rows, spec, scene.context);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(refused.error().message, HasSubstr("found one on cpu"));
}

}  // namespace
}  // namespace gnn::tasks
