#include "worker/training/run_recorder.h"

#include "common/log.h"
#include "tests/support/simulated_disk.h"
#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/training/linear_net.h"
#include "tests/worker/training/trainer_runs.h"
#include "worker/progress/console_sink.h"
#include "worker/report/record_json.h"
#include "worker/training/trainer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

using gnn::testing::SimulatedDisk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Three batches an epoch of four points each, other ones on each rank. A bad loss may come from the
// batch with a number, counted over epochs.
class PointsWorkload final : public Workload {
 public:
  explicit PointsWorkload(int64_t rank, int64_t world)
      : rank_(rank),
        batches_(static_cast<size_t>(world), 3),
        points_(at::linspace(-1, 1, 48, at::kDouble).sin().reshape({12, 4})),
        labels_(at::arange(12, at::kLong) % 3) {}

  torch::nn::Module& module() override { return *net_; }
  const std::vector<int64_t>& batches_per_rank() const override { return batches_; }
  Status start_epoch(int64_t, int64_t first_batch) override {
    next_ = first_batch;
    return {};
  }
  Result<std::optional<BatchSize>> next_batch() override {
    if (next_ == 3) return std::optional<BatchSize>();
    current_ = (next_++ + rank_) % 3;
    if (on_batch) on_batch(fetched_);
    ++fetched_;
    return BatchSize{.items = 4, .sampled_edges = 10 + rank_};
  }
  Scores forward() override {
    return {net_->forward(points_.narrow(0, 4 * current_, 4)), labels_.narrow(0, 4 * current_, 4)};
  }
  at::Tensor loss(const Scores& scores) const override {
    const at::Tensor loss = cross_entropy(scores);
    return fetched_ - 1 == bad_batch ? loss * std::numeric_limits<double>::quiet_NaN() : loss;
  }
  at::Tensor count_correct(const Scores& scores) const override {
    return training::count_correct(scores);
  }
  std::optional<progress::RemoteData> remote_data() const override {
    progress::RemoteData data;
    data.training = {.local = 5 * fetched_, .cache = 30 * fetched_, .remote = 10 * fetched_};
    data.expected_hit_rate = 0.5;
    return data;
  }
  bool has(Part) const override { return true; }
  Result<Evaluated> evaluate(Part part, const EvaluationContext& context) override {
    if (part == Part::Test && context.answers.classes > 0)
      context.answers.take({.classes = 3, .counts = {4, 0, 0, 0, 3, 1, 0, 0, 4}});
    return progress::accuracy(count_correct({net_->forward(points_), labels_}).item<int64_t>(), 12);
  }

  std::function<void(int64_t)> on_batch;
  int64_t bad_batch = -1;

 private:
  int64_t rank_;
  std::vector<int64_t> batches_;
  at::Tensor points_;
  at::Tensor labels_;
  std::shared_ptr<LinearNet> net_ = std::make_shared<LinearNet>();
  int64_t fetched_ = 0;
  int64_t next_ = 0;
  int64_t current_ = 0;
};

struct Run {
  int64_t attempt = 0;
  int64_t stop_at = -1;  // the batch in which rank 0 is asked to stop
  int64_t bad_batch = -1;
  std::string job_uid = "6f0c";
  std::string resume = "Auto";
};

// Trains four epochs on two ranks that share a disk, and gives rank 0's result and its parameters'
// hash. Without a disk there are no checkpoints, and so no record. Each look at the clock is a second.
Result<TrainingResult> train_ranks(const std::shared_ptr<SimulatedDisk>& disk, const Run& run) {
  Result<TrainingResult> result = fail(ErrorKind::Internal, "no rank");
  comm::run_ranks(2, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    progress::NullSink sink;
    StopToken stop;
    PointsWorkload workload(communicator->rank(), 2);
    workload.bad_batch = run.bad_batch;
    workload.on_batch = [&](int64_t batch) {
      if (batch == run.stop_at && communicator->rank() == 0) stop.request();
    };
    int64_t seconds = 1000 * run.attempt;
    TrainerContext context{
        .communicator = communicator,
        .device = c10::kCPU,
        .progress = sink,
        .stop = stop,
        .files = disk,
        .now = [&seconds] { return TimePoint(std::chrono::seconds(seconds++)); }
    };
    TrainerOptions options = options_for(4);
    options.training.evaluation.parts = std::vector{Part::Validation};
    options.incarnation = {.job_uid = run.job_uid, .attempt = run.attempt, .round = 0};
    options.num_classes = 3;
    options.facts.job = "points";
    options.data = report::DataRecord{.description = "twelve points"};
    if (disk) options.checkpoint = api::Checkpoint{.path = "/job/checkpoints"};
    if (disk) options.checkpoint->resume = run.resume;
    auto mine = train(workload, context, options);
    if (communicator->rank() == 0) result = std::move(mine);
  });
  return result;
}

report::RunRecord record_on(SimulatedDisk& disk) {
  const auto text = disk.read("/job/checkpoints/run.json", 1 << 20);
  if (!text) throw std::runtime_error(text.error().message);
  return report::parse_record(*text).value();
}

TEST(RunRecorder, KeepsOneRecordOverRestartsAndChangesNoBit) {
  const TrainingResult expected = train_ranks(nullptr, {}).value();
  const auto disk = std::make_shared<SimulatedDisk>();
  ASSERT_TRUE(train_ranks(disk, {.attempt = 0, .stop_at = 7})->stopped);
  const report::RunRecord stopped = record_on(*disk);
  EXPECT_EQ(stopped.epochs.size(), 2U);
  EXPECT_EQ(stopped.attempts.back().end, report::AttemptEnd::Stopped);
  const TrainingResult result = train_ranks(disk, {.attempt = 1}).value();
  EXPECT_EQ(result.report.parameters_hash, expected.report.parameters_hash);

  const report::RunRecord record = record_on(*disk);
  ASSERT_EQ(record.epochs.size(), 4U);
  ASSERT_TRUE(record.ranks && record.confusion && record.data && record.outcome);
  for (size_t epoch = 0; epoch < 4; ++epoch) {
    EXPECT_EQ(record.epochs[epoch].epoch, static_cast<int64_t>(epoch));
    EXPECT_EQ(record.epochs[epoch].loss, expected.epochs[epoch].average_loss);
    EXPECT_EQ(record.epochs[epoch].validation, expected.epochs[epoch].validation);
    EXPECT_TRUE(record.epochs[epoch].step_seconds && record.epochs[epoch].learning_rate);
  }
  ASSERT_EQ(record.attempts.size(), 2U);
  const report::AttemptRecord& attempt = record.attempts[1];
  EXPECT_EQ(attempt.epoch, 2);
  EXPECT_EQ(attempt.step, 2);
  EXPECT_EQ(attempt.incarnation.attempt, 1);
  EXPECT_EQ(attempt.world_size, 2);
  EXPECT_EQ(attempt.device, "cpu");
  EXPECT_EQ(attempt.began, TimePoint(std::chrono::seconds(1000)));
  EXPECT_GT(attempt.seen, attempt.began);
  EXPECT_EQ(attempt.end, report::AttemptEnd::Complete);
  EXPECT_EQ(record.ranks->world_size, 2);
  ASSERT_EQ(record.ranks->ranks.size(), 2U);
  EXPECT_GT(record.ranks->ranks[1].seconds.total, 0);
  EXPECT_EQ(record.ranks->ranks[1].expected_hit_rate, 0.5);
  EXPECT_EQ(record.ranks->first_epoch, 2);
  EXPECT_EQ(record.ranks->ranks[1].items, 4 * record.ranks->ranks[1].sampled_edges / 11);
  // Both ranks read 45 rows a batch; the epoch that was stopped in it had less.
  EXPECT_EQ(record.epochs[3].rows->local, 2 * 15);
  EXPECT_EQ(record.epochs[3].rows->cache, 2 * 90);
  EXPECT_EQ(record.epochs[3].rows->remote, 2 * 30);
  EXPECT_THAT(record.confusion->counts, ElementsAre(4, 0, 0, 0, 3, 1, 0, 0, 4));
  EXPECT_EQ(record.outcome->metrics, result.report.metrics);
  EXPECT_EQ(record.facts.job, "points");
  EXPECT_EQ(record.facts.evaluation, "accuracy");
  EXPECT_EQ(record.facts.epochs, 4);
  EXPECT_EQ(record.facts.batch_size, 4);
  EXPECT_EQ(record.data->description, "twelve points");
}

TEST(RunRecorder, SaysWhyAnAttemptFailed) {
  const auto disk = std::make_shared<SimulatedDisk>();
  EXPECT_FALSE(train_ranks(disk, {.bad_batch = 4}).has_value());
  const report::AttemptRecord attempt = record_on(*disk).attempts.at(0);
  EXPECT_EQ(attempt.end, report::AttemptEnd::Failed);
  EXPECT_THAT(attempt.reason, HasSubstr("Configuration: epoch 1, step 1: the loss is"));
}

TEST(RunRecorder, LeavesTheRecordToALaterAttemptAndOutlivesADamagedOne) {
  const auto disk = std::make_shared<SimulatedDisk>();
  ASSERT_TRUE(train_ranks(disk, {.attempt = 1}).has_value());
  const auto later = disk->read("/job/checkpoints/run.json", 1 << 20);
  EXPECT_FALSE(train_ranks(disk, {.attempt = 0}).has_value());
  EXPECT_EQ(disk->read("/job/checkpoints/run.json", 1 << 20), later);

  const int file = disk->create("/job/checkpoints/run.json").value();
  ASSERT_TRUE(disk->write(file, "{", 1));
  ASSERT_TRUE(disk->close(file));
  ASSERT_TRUE(train_ranks(disk, {.attempt = 2}).has_value());
  // Losses and metrics are in the checkpoint, too.
  EXPECT_EQ(record_on(*disk).epochs.size(), 4U);
  EXPECT_EQ(record_on(*disk).attempts.size(), 1U);
}

TEST(RunRecorder, LeavesOutTheAttemptsOfATrainingWhoseCheckpointItStartsFrom) {
  const auto disk = std::make_shared<SimulatedDisk>();
  const auto first = train_ranks(disk, {.stop_at = 7});
  ASSERT_TRUE(first.has_value());
  ASSERT_TRUE(train_ranks(disk, {.job_uid = "further", .resume = first->report.checkpoint}));
  EXPECT_EQ(record_on(*disk).epochs.size(), 4U);
  ASSERT_EQ(record_on(*disk).attempts.size(), 1U);
  EXPECT_EQ(record_on(*disk).attempts[0].incarnation.job_uid, "further");
}

// A recorder of its own, by a clock that tests set.
class RecorderTest : public ::testing::Test {
 protected:
  void add_epoch_at(Duration time) {
    now_ = TimePoint(time);
    recorder_.add_epoch({.epoch = epoch_++}, {});
  }
  [[nodiscard]] size_t epochs_on_disk() const { return record_on(*disk_).epochs.size(); }

  std::shared_ptr<SimulatedDisk> disk_ = std::make_shared<SimulatedDisk>();
  TimePoint now_{std::chrono::seconds(100)};
  progress::NullSink sink_;
  TrainingCheckpoints checkpoints_ =
      TrainingCheckpoints::open(
          {.checkpoint = {.path = "/job/checkpoints"}, .incarnation = {.job_uid = "6f0c"}},
          comm::make_single_communicator(),
          sink_,
          disk_
      )
          .value();
  RunRecorder recorder_{checkpoints_, [this] { return now_; }, {}, {}, {}, true};
  int64_t epoch_ = 0;
};

TEST_F(RecorderTest, WritesTwiceASecondAndAtTheEndAndOnceTheClockIsSetBack) {
  add_epoch_at(std::chrono::milliseconds(100'499));
  EXPECT_EQ(epochs_on_disk(), 0U);
  add_epoch_at(std::chrono::milliseconds(100'500));
  EXPECT_EQ(epochs_on_disk(), 2U);
  add_epoch_at(std::chrono::seconds(9));
  EXPECT_EQ(epochs_on_disk(), 3U);
  EXPECT_EQ(record_on(*disk_).attempts[0].seen, now_);
  add_epoch_at(std::chrono::milliseconds(9'100));
  EXPECT_EQ(epochs_on_disk(), 3U);
  recorder_.end(report::AttemptEnd::Complete);
  EXPECT_EQ(epochs_on_disk(), 4U);
}

TEST_F(RecorderTest, WarnsOnceOfADiskThatFailsAndTriesOn) {
  std::vector<std::string> log;
  const ScopedLogOutput output([&](std::string_view line) { log.emplace_back(line); });
  for (const int64_t second : {101, 102}) {
    disk_->fail_at(0, SimulatedDisk::Fault::Error);
    add_epoch_at(std::chrono::seconds(second));
    EXPECT_TRUE(disk_->fired());
  }
  ASSERT_THAT(log, ::testing::SizeIs(1));
  EXPECT_THAT(log[0], HasSubstr("run.json"));
  EXPECT_EQ(epochs_on_disk(), 0U);
  add_epoch_at(std::chrono::seconds(103));
  EXPECT_EQ(epochs_on_disk(), 3U);
}

}  // namespace
}  // namespace gnn::training
