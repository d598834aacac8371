#include "worker/app/run_tracked.h"

#include "tests/support/read_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/app/samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace gnn::app {
namespace {

using ::testing::HasSubstr;

// Runs the job as the only rank, which is told every second step.
Result<tasks::TaskResult> run(
    const api::GnnJob& job, std::shared_ptr<const progress::TrackingMeter>& meter
) {
  const StopToken stop;
  rendezvous::Rendezvous alone;
  alone.incarnation.job_uid = "6f0c";
  progress::NullSink console;
  return run_tracked(
      job,
      {.rendezvous = alone, .progress = console, .stop = stop, .activity = nullptr},
      {.log_steps = 2, .on_meter = [&](const auto& told) { meter = told; }}
  );
}

TEST(RunTracked, WritesEventsOfATrainingOrNamesTheFieldBeforeIt) {
  const gnn::testing::TemporaryFolder folder;
  api::GnnJob job = sample(
      "fake-gcn.yaml",
      {"dataset.synthetic.scale=\"0.02\"", "training.epochs=2", "tracking.tensorBoard.path=/no/such"
      }
  );
  std::shared_ptr<const progress::TrackingMeter> meter;
  const auto refused = run(job, meter);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(refused.error().message, HasSubstr("spec.tracking.tensorBoard.path: "));
  EXPECT_THAT(refused.error().message, HasSubstr("/no/such"));

  job.spec.tracking->tensor_board->path = folder.path();
  const auto outcome = run(job, meter);
  ASSERT_TRUE(outcome) << outcome.error().message;
  const std::string events = gnn::testing::read_file(
      folder.path(job.metadata.name + "-6f0c/events.out.tfevents.a000000-r0000")
  );
  for (const char* tag : {"step/loss", "epoch/loss", "validation/accuracy", "final/test_accuracy"})
    EXPECT_THAT(events, HasSubstr(tag));
  const progress::TrackerCounts counts = meter->read().at("tensorboard");
  EXPECT_EQ(counts.dropped, 0);
  // The start, the epochs, the end, and half of the steps.
  EXPECT_EQ(counts.written, 1 + 2 + 1 + 2 * (outcome->report.global_steps / 2 / 2));
}

}  // namespace
}  // namespace gnn::app
