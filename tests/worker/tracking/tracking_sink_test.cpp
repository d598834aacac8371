#include "worker/tracking/tracking_sink.h"

#include "tests/support/fake_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace gnn::tracking {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

class TrackingSinkTest : public ::testing::Test {
 protected:
  TrackingSink sink(int64_t log_steps) {
    return {log_steps, clock_, [this](const Record& record) { records_.push_back(record); }};
  }

  // The step that follows `before` others, of epochs of ten steps.
  static progress::StepReport step_after(int64_t before) {
    progress::StepReport report;
    report.step = before % 10;
    report.global_step = before;
    report.loss = 0.5;
    report.learning_rate = 0.125;
    report.sampled_edges = 300;
    report.seconds.total = 2;
    return report;
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Scalar& scalar : records_.back().scalars) names.push_back(scalar.name);
    return names;
  }

  gnn::testing::FakeClock clock_;
  std::vector<Record> records_;
};

TEST_F(TrackingSinkTest, StartsAtTheFirstStepAndTellsEachOfLogSteps) {
  TrackingSink sink = this->sink(5);
  for (int64_t before = 23; before < 30; ++before) sink.on_step(step_after(before));
  ASSERT_THAT(records_, ::testing::SizeIs(3));
  EXPECT_EQ(records_[0], (Record{.step = 24, .time = clock_.now(), .start = true}));
  EXPECT_EQ(records_[1].step, 25);
  EXPECT_EQ(records_[2].step, 30);
  EXPECT_THAT(
      records_[2].scalars,
      ElementsAre(
          Scalar{"step/loss", 0.5},
          Scalar{"step/learning_rate", 0.125},
          Scalar{"step/seconds", 2},
          Scalar{"step/sampled_edges_per_second", 150}
      )
  );
}

TEST_F(TrackingSinkTest, TellsDefinedMetricsOfEpochsAndOfTheEnd) {
  TrackingSink sink = this->sink(0);
  progress::EpochReport report;
  report.global_step = 30;
  report.average_loss = 0.25;
  report.train = progress::accuracy(3, 4);
  report.validation = progress::Measure{.metric = "auc", .value = 0.75, .count = 8};
  report.test = progress::Measure{.metric = "auc", .count = 8};
  sink.on_epoch(report);
  EXPECT_TRUE(records_.front().start);
  EXPECT_EQ(records_.back().step, 30);
  EXPECT_THAT(records_.back().scalars, Contains(Scalar{"epoch/loss", 0.25}));
  EXPECT_THAT(records_.back().scalars, Contains(Scalar{"train/accuracy", 0.75}));
  EXPECT_THAT(records_.back().scalars, Contains(Scalar{"validation/auc", 0.75}));
  EXPECT_THAT(names(), Not(Contains("test/auc")));

  progress::FinalReport final;
  final.global_steps = 40;
  final.metrics = {{"test_auc", 0.5}};
  final.preempted = true;
  sink.on_final(final);
  EXPECT_EQ(records_.back().step, 30) << "another process goes on";
  final.preempted = false;
  sink.on_final(final);
  EXPECT_EQ(records_.back().step, 40);
  EXPECT_THAT(records_.back().scalars, ElementsAre(Scalar{"final/test_auc", 0.5}));
}

}  // namespace
}  // namespace gnn::tracking
