// Trainings that end early, keep their best epoch and test it: stopped and lost at every point.

#include "tests/support/simulated_disk.h"
#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/training/linear_net.h"
#include "tests/worker/training/trainer_runs.h"
#include "worker/progress/console_sink.h"
#include "worker/training/trainer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

using gnn::testing::SimulatedDisk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A number that tells the model of one step from that of another.
double mark_of(const LinearNet& net) {
  return net.weight().select(0, 1).sum().item<double>();
}

// Three batches an epoch. The validations are planned, by epoch; the test gives mark_of().
class PlannedWorkload final : public Workload {
 public:
  explicit PlannedWorkload(std::vector<double> validations, int64_t rank = 0, int64_t world = 1)
      : validations_(std::move(validations)),
        rank_(rank),
        batches_(static_cast<size_t>(world), 3),
        points_(at::linspace(-1, 1, 48, at::kDouble).sin().reshape({12, 4})),
        labels_(at::arange(12, at::kLong) % 3) {}

  torch::nn::Module& module() override { return *net_; }
  const std::vector<int64_t>& batches_per_rank() const override { return batches_; }
  Status start_epoch(int64_t epoch, int64_t first_batch) override {
    epoch_ = epoch;
    next_ = first_batch;
    return {};
  }
  Result<std::optional<BatchSize>> next_batch() override {
    if (next_ == 3) return std::optional<BatchSize>();
    current_ = (next_++ + rank_) % 3;
    ++fetched;
    return BatchSize{.items = 4};
  }
  Scores forward() override {
    return {net_->forward(points_.narrow(0, 4 * current_, 4)), labels_.narrow(0, 4 * current_, 4)};
  }
  at::Tensor loss(const Scores& scores) const override { return cross_entropy(scores); }
  at::Tensor count_correct(const Scores& scores) const override {
    return training::count_correct(scores);
  }
  bool has(Part part) const override {
    if (part == Part::Test) return has_test;
    return part != Part::Validation || !validations_.empty();
  }
  bool predicts() const override { return true; }
  Result<bool> predict(const EvaluationContext& context) override {
    predicted.push_back(mark_of(*net_));
    return !context.stop.requested();
  }
  Result<Evaluated> evaluate(Part part, const EvaluationContext& context) override {
    context.progress.on_mark();
    if (context.stop.requested()) return Evaluated();
    evaluated.push_back(part);
    const bool test = part == Part::Test;
    const double value = test ? mark_of(*net_) : validations_.at(static_cast<size_t>(epoch_));
    if (!test) marks.push_back(mark_of(*net_));
    return progress::Measure{.metric = "accuracy", .value = value, .count = 12};
  }

  int64_t fetched = 0;
  std::vector<Part> evaluated;
  std::vector<double> marks;  // at each validation
  std::vector<double> predicted;
  bool has_test = true;

 private:
  std::vector<double> validations_;
  int64_t rank_;
  std::vector<int64_t> batches_;
  at::Tensor points_;
  at::Tensor labels_;
  std::shared_ptr<LinearNet> net_ = std::make_shared<LinearNet>();
  int64_t epoch_ = 0;
  int64_t next_ = 0;
  int64_t current_ = 0;
};

// Best in epoch 1; then three validations that are not better, so that epoch 4 is the last.
const std::vector<double> kPlan{0.3, 0.5, 0.4, 0.5, kNaN, 0.9, 0.9, 0.9};

TrainerOptions stopping_options(api::TestModel test_model) {
  TrainerOptions options = options_for(8);
  api::Training& training = options.training;
  training.optimizer.schedule = api::LearningRateSchedule{
      .type = api::ScheduleType::Cosine, .interval = api::ScheduleInterval::Step
  };
  training.optimizer.schedule->warmup = api::Warmup{.length = 4};
  training.optimizer.max_gradient_norm = api::Decimal{"0.2"};
  training.early_stopping = api::EarlyStopping{.patience = 3};
  training.evaluation.test_model = test_model;
  options.checkpoint.emplace();
  options.checkpoint->path = "/job/checkpoints";
  options.checkpoint->every_epochs = 2;
  options.checkpoint->keep = 1;
  options.checkpoint->best.emplace();
  return options;
}

// What a rank does at each thing that a sink hears of.
class EventSink final : public progress::NullSink {
 public:
  explicit EventSink(std::function<void(int64_t)> on_event) : on_event_(std::move(on_event)) {}
  void on_phase(progress::Phase) override { on_event_(events++); }
  void on_mark() override { on_event_(events++); }
  void on_step(const progress::StepReport&) override { on_event_(events++); }
  void on_epoch(const progress::EpochReport&) override { on_event_(events++); }
  void on_checkpoint(const progress::CheckpointReport&) override { on_event_(events++); }
  void on_message(const std::string&) override { on_event_(events++); }

  int64_t events = 0;

 private:
  std::function<void(int64_t)> on_event_;
};

struct PlannedRun {
  Result<TrainingResult> result = fail(ErrorKind::Internal, "lost");
  PlannedWorkload workload{kPlan};
  int64_t events = 0;
};

constexpr int64_t kNever = -1;
enum class Disturbance { Stop, Loss };

// One rank, disturbed at an event.
std::unique_ptr<PlannedRun> run_planned(
    const TrainerOptions& options,
    const std::shared_ptr<SimulatedDisk>& disk,
    int64_t event = kNever,
    Disturbance disturbance = Disturbance::Stop,
    bool has_test = true
) {
  auto run = std::make_unique<PlannedRun>();
  run->workload.has_test = has_test;
  StopToken stop;
  EventSink sink([&](int64_t now) {
    if (now != event) return;
    if (disturbance == Disturbance::Loss) throw std::runtime_error("lost");
    stop.request();
  });
  TrainerContext context{
      .communicator = comm::make_single_communicator(),
      .device = c10::kCPU,
      .progress = sink,
      .stop = stop,
      .files = disk
  };
  try {
    run->result = train(run->workload, context, options);
  } catch (const std::runtime_error&) {
    // As if the process was killed: what it had is gone.
  }
  run->events = sink.events;
  return run;
}

void expect_same_end(const TrainingResult& expected, const TrainingResult& found) {
  EXPECT_EQ(found.report.parameters_hash, expected.report.parameters_hash);
  EXPECT_EQ(found.report.global_steps, expected.report.global_steps);
  EXPECT_EQ(found.report.epochs, expected.report.epochs);
  EXPECT_EQ(found.report.test_model, expected.report.test_model);
  EXPECT_EQ(found.report.metrics.at("test_accuracy"), expected.report.metrics.at("test_accuracy"));
  ASSERT_TRUE(found.report.best && expected.report.best);
  EXPECT_EQ(found.report.best->epoch, expected.report.best->epoch);
  EXPECT_EQ(found.report.best->value, expected.report.best->value);
  ASSERT_EQ(found.epochs.size(), expected.epochs.size());
  for (size_t i = 0; i < found.epochs.size(); ++i) {
    EXPECT_EQ(found.epochs[i].epoch, expected.epochs[i].epoch);
    EXPECT_EQ(found.epochs[i].average_loss, expected.epochs[i].average_loss);
    EXPECT_EQ(found.epochs[i].train, expected.epochs[i].train);
    EXPECT_EQ(found.epochs[i].test, expected.epochs[i].test);
  }
}

std::vector<std::string> manifests_in(const SimulatedDisk& disk) {
  std::vector<std::string> names;
  for (const auto& path : disk.paths()) {
    if (path.extension() == ".manifest") names.push_back(path.filename());
  }
  return names;
}

TEST(EarlyStopping, EndsAfterItsPatienceAndTestsAndPredictsByTheModelThatIsAskedFor) {
  const auto disk = std::make_shared<SimulatedDisk>();
  const auto last = run_planned(stopping_options(api::TestModel::Last), disk);
  ASSERT_TRUE(last->result) << last->result.error().message;
  EXPECT_EQ(last->result->report.global_steps, 15);
  EXPECT_EQ(last->result->epochs.size(), 5U);
  EXPECT_EQ(last->result->report.test_model, "last");
  EXPECT_EQ(last->result->report.metrics.at("test_accuracy"), last->workload.marks.at(4));
  EXPECT_EQ(last->result->report.best->epoch, 1);
  EXPECT_THAT(last->workload.predicted, ElementsAre(last->workload.marks.at(4)));

  const auto best =
      run_planned(stopping_options(api::TestModel::Best), std::make_shared<SimulatedDisk>());
  ASSERT_TRUE(best->result) << best->result.error().message;
  EXPECT_EQ(best->result->report.test_model, "best");
  EXPECT_EQ(best->result->report.metrics.at("test_accuracy"), best->workload.marks.at(1));
  EXPECT_EQ(best->result->report.parameters_hash, last->result->report.parameters_hash)
      << "of the last step in any case";
  EXPECT_THAT(best->workload.predicted, ElementsAre(best->workload.marks.at(1)));

  // Predictions are of that model without a test set, too.
  for (const auto& [test_model, epoch] :
       {std::pair{api::TestModel::Last, size_t{4}}, std::pair{api::TestModel::Best, size_t{1}}}) {
    const auto run = run_planned(
        stopping_options(test_model),
        std::make_shared<SimulatedDisk>(),
        kNever,
        Disturbance::Stop,
        false
    );
    ASSERT_TRUE(run->result) << run->result.error().message;
    EXPECT_THAT(run->workload.predicted, ElementsAre(run->workload.marks.at(epoch)));
  }
}

TEST(EarlyStopping, OfAJobThatRestartsEndsItWithoutAStepOrAValidation) {
  for (const auto test_model : {api::TestModel::Last, api::TestModel::Best}) {
    const auto disk = std::make_shared<SimulatedDisk>();
    TrainerOptions options = stopping_options(test_model);
    options.checkpoint->every_epochs = 100;
    const auto first = run_planned(options, disk);
    options.incarnation.attempt = 1;
    const auto again = run_planned(options, disk);
    ASSERT_TRUE(again->result) << again->result.error().message;
    EXPECT_EQ(again->workload.fetched, 0);
    EXPECT_THAT(again->workload.evaluated, ::testing::Not(::testing::Contains(Part::Validation)));
    expect_same_end(*first->result, *again->result);
  }
}

class EarlyStoppingTest : public ::testing::TestWithParam<std::pair<api::TestModel, Disturbance>> {
};

TEST_P(EarlyStoppingTest, GivesTheUndisturbedResultWhereverItIsStoppedOrLost) {
  const auto [test_model, disturbance] = GetParam();
  TrainerOptions options = stopping_options(test_model);
  const auto whole = run_planned(options, std::make_shared<SimulatedDisk>());
  ASSERT_TRUE(whole->result) << whole->result.error().message;
  ASSERT_GT(whole->events, 40);
  for (int64_t event = 0; event < whole->events; ++event) {
    SCOPED_TRACE(event);
    const auto disk = std::make_shared<SimulatedDisk>();
    options.incarnation.round = 0;
    run_planned(options, disk, event, disturbance);
    options.incarnation.round = 1;
    const auto resumed = run_planned(options, disk);
    ASSERT_TRUE(resumed->result) << resumed->result.error().message;
    expect_same_end(*whole->result, *resumed->result);
    EXPECT_EQ(resumed->workload.predicted, whole->workload.predicted);
    EXPECT_THAT(manifests_in(*disk), ::testing::Contains("step-000000000006.manifest"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Points,
    EarlyStoppingTest,
    ::testing::Values(
        std::pair(api::TestModel::Last, Disturbance::Stop),
        std::pair(api::TestModel::Last, Disturbance::Loss),
        std::pair(api::TestModel::Best, Disturbance::Stop),
        std::pair(api::TestModel::Best, Disturbance::Loss)
    )
);

TEST(BestCheckpoint, IsKeptBesideTheNewestUntilThereIsABetterOne) {
  const auto disk = std::make_shared<SimulatedDisk>();
  TrainerOptions options = stopping_options(api::TestModel::Last);
  options.training.early_stopping.reset();
  options.checkpoint->every_epochs = 1;
  const auto manifests_after = [&](int64_t epochs) {
    options.training.epochs = epochs;
    ++options.incarnation.round;
    EXPECT_TRUE(run_planned(options, disk)->result);
    return manifests_in(*disk);
  };
  EXPECT_THAT(
      manifests_after(5),
      ElementsAre(
          "step-000000000006.manifest", "step-000000000012.manifest", "step-000000000015.manifest"
      )
  );
  // The best of two rounds: the older one goes with the next checkpoint after that of epoch 5.
  EXPECT_THAT(
      manifests_after(8),
      ElementsAre(
          "step-000000000018.manifest", "step-000000000021.manifest", "step-000000000024.manifest"
      )
  );
}

TEST(BestCheckpoint, ThatIsDamagedIsNamedWhenItIsToBeTested) {
  const auto disk = std::make_shared<SimulatedDisk>();
  TrainerOptions options = stopping_options(api::TestModel::Best);
  const auto first = run_planned(options, disk);
  ASSERT_TRUE(first->result) << first->result.error().message;
  const std::string path = first->result->report.best->checkpoint;
  disk->content(path)[10] ^= 1;
  options.incarnation.round = 1;
  const auto again = run_planned(options, disk);
  ASSERT_FALSE(again->result);
  EXPECT_EQ(again->result.error().kind, ErrorKind::Data);
  EXPECT_THAT(again->result.error().message, HasSubstr(path));
}

TEST(BestCheckpoint, OfAnotherTrainingDoesNotCount) {
  const auto disk = std::make_shared<SimulatedDisk>();
  TrainerOptions options = stopping_options(api::TestModel::Best);
  options.training.epochs = 3;
  const auto first = run_planned(options, disk);
  ASSERT_TRUE(first->result) << first->result.error().message;
  options.training.epochs = 8;
  options.incarnation.job_uid = "further";
  options.checkpoint->resume = first->result->report.checkpoint;
  options.checkpoint->path = "/job/further";
  const auto further = run_planned(options, disk);
  ASSERT_TRUE(further->result) << further->result.error().message;
  EXPECT_EQ(further->result->report.best->epoch, 5) << "of epochs 3 to 7";
  EXPECT_EQ(further->result->report.epochs, 8);
}

TEST(EarlyStopping, NeedsAValidationSet) {
  const auto disk = std::make_shared<SimulatedDisk>();
  TrainerOptions options = stopping_options(api::TestModel::Last);
  PlannedWorkload workload({});
  progress::NullSink sink;
  const StopToken stop;
  TrainerContext context{
      .communicator = comm::make_single_communicator(),
      .device = c10::kCPU,
      .progress = sink,
      .stop = stop,
      .files = disk
  };
  for (const char* field : {"spec.training.earlyStopping", "spec.checkpoint.best"}) {
    const auto refused = train(workload, context, options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::Data);
    EXPECT_THAT(refused.error().message, HasSubstr(std::string(field) + ": expected"));
    options.training.early_stopping.reset();
  }
  EXPECT_EQ(workload.fetched, 0);
}

// Rank 0 alone has the disk.
std::vector<Result<TrainingResult>> run_planned_ranks(
    const TrainerOptions& options,
    const std::shared_ptr<SimulatedDisk>& disk,
    int64_t event = kNever
) {
  std::vector<Result<TrainingResult>> results(2, fail(ErrorKind::Internal, "lost"));
  comm::run_ranks(2, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const int64_t rank = communicator->rank();
    PlannedWorkload workload(kPlan, rank, 2);
    StopToken stop;
    EventSink sink([&](int64_t now) {
      if (rank == 1 && now == event) stop.request();
    });
    TrainerContext context{
        .communicator = communicator,
        .device = c10::kCPU,
        .progress = sink,
        .stop = stop,
        .files = rank == 0 ? disk : nullptr
    };
    results[static_cast<size_t>(rank)] = train(workload, context, options);
  });
  return results;
}

TEST(BestCheckpoint, IsTestedOnAllRanksFromTheDiskOfOne) {
  TrainerOptions options = stopping_options(api::TestModel::Best);
  const auto whole = run_planned_ranks(options, std::make_shared<SimulatedDisk>());
  const auto disk = std::make_shared<SimulatedDisk>();
  run_planned_ranks(options, disk, 9);  // in epoch 2
  options.incarnation.round = 1;
  const auto resumed = run_planned_ranks(options, disk);
  for (size_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(whole[rank] && resumed[rank]) << whole[rank].error().message;
    expect_same_end(*whole[0], *whole[rank]);
    expect_same_end(*whole[0], *resumed[rank]);
    EXPECT_NE(whole[rank]->report.best->checkpoint, "");
  }
}

}  // namespace
}  // namespace gnn::training
