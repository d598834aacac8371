#include "worker/training/trainer.h"

#include "tests/support/temporary_folder.h"
#include "tests/worker/training/counting_sink.h"
#include "tests/worker/training/trainer_runs.h"
#include "worker/progress/console_sink.h"
#include "worker/training/scores.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace gnn::training {
namespace {

using gnn::testing::TemporaryFolder;
using ::testing::HasSubstr;

// A model with dropout, so that a wrong seed shows.
class TinyNetImpl : public torch::nn::Module {
 public:
  TinyNetImpl() {
    first_ = register_module("first", torch::nn::Linear(4, 8));
    second_ = register_module("second", torch::nn::Linear(8, 3));
  }
  at::Tensor forward(const at::Tensor& x) {
    return second_->forward(torch::dropout(torch::relu(first_->forward(x)), 0.5, is_training()));
  }

 private:
  torch::nn::Linear first_{nullptr};
  torch::nn::Linear second_{nullptr};
};

// Twenty points in batches of four; the label is the place of the largest of the first three
// coordinates.
class TinyWorkload final : public Workload {
 public:
  explicit TinyWorkload(double scale = 1) {
    torch::manual_seed(7);
    points_ = torch::randn({20, 4}) * scale;
    labels_ = points_.narrow(1, 0, 3).argmax(1);
    net_ = std::make_shared<TinyNetImpl>();
  }

  torch::nn::Module& module() override { return *net_; }
  const std::vector<int64_t>& batches_per_rank() const override { return batches_; }
  Status start_epoch(int64_t epoch, int64_t first_batch) override {
    starts.emplace_back(epoch, first_batch);
    next_ = first_batch;
    return {};
  }
  Result<std::optional<BatchSize>> next_batch() override {
    if (next_ == batches_[0]) return std::optional<BatchSize>();
    current_ = next_++;
    if (on_batch) on_batch(current_);
    return BatchSize{.items = 4, .sampled_edges = 0, .input_nodes = 4};
  }
  Scores forward() override {
    return {net_->forward(points_.narrow(0, current_ * 4, 4)), labels_.narrow(0, current_ * 4, 4)};
  }
  at::Tensor loss(const Scores& scores) const override { return cross_entropy(scores); }
  at::Tensor count_correct(const Scores& scores) const override {
    return training::count_correct(scores);
  }
  bool has(Part part) const override { return std::ranges::find(parts, part) != parts.end(); }
  Result<Evaluated> evaluate(Part part, const EvaluationContext& context) override {
    if (context.stop.requested()) return Evaluated();
    evaluated.emplace_back(part, context.max_batches.value_or(-1));
    context.progress.on_evaluation({.done = 1, .total = 2});
    context.progress.on_evaluation({.done = 2, .total = 2});
    return progress::accuracy(count_correct({net_->forward(points_), labels_}).item<int64_t>(), 20);
  }

  std::vector<Part> parts = {Part::Validation};
  std::vector<std::pair<Part, int64_t>> evaluated;  // with the most batches, or -1
  std::vector<std::pair<int64_t, int64_t>> starts;
  std::function<void(int64_t)> on_batch;

 private:
  at::Tensor points_;
  at::Tensor labels_;
  std::shared_ptr<TinyNetImpl> net_;
  std::vector<int64_t> batches_ = {5};
  int64_t next_ = 0;
  int64_t current_ = 0;
};

struct Scene {
  progress::NullSink sink;
  StopToken stop;
  TrainerContext context{
      .communicator = comm::make_single_communicator(),
      .device = c10::kCPU,
      .progress = sink,
      .stop = stop
  };
};

std::vector<at::Tensor> parameters_of(Workload& workload) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : workload.module().parameters())
    copies.push_back(parameter.detach().clone());
  return copies;
}

TEST(Trainer, LowersTheLossAndReportsEveryEpoch) {
  TinyWorkload workload;
  Scene run;
  const auto result = train(workload, run.context, options_for(30));
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_FALSE(result->stopped);
  ASSERT_EQ(result->epochs.size(), 30U);
  EXPECT_EQ(result->report.global_steps, 150);
  EXPECT_EQ(result->epochs[0].train.count, 20);
  EXPECT_EQ(result->epochs[0].steps, 5);
  EXPECT_LT(result->epochs.back().average_loss, result->epochs.front().average_loss);
  EXPECT_DOUBLE_EQ(
      result->report.metrics.at("validation_accuracy"), result->epochs.back().validation->value
  );
}

TEST(Trainer, GivesTheSameBitsForTheSameSeed) {
  TinyWorkload first;
  TinyWorkload second;
  TinyWorkload other;
  Scene run;
  TrainerOptions options = options_for(3);
  ASSERT_TRUE(train(first, run.context, options).has_value());
  torch::manual_seed(99);  // what the generator was before is of no matter
  torch::rand({100});
  ASSERT_TRUE(train(second, run.context, options).has_value());
  options.training.seed = 4;
  ASSERT_TRUE(train(other, run.context, options).has_value());
  EXPECT_TRUE(same_bits(parameters_of(first), parameters_of(second)));
  EXPECT_FALSE(same_bits(parameters_of(first), parameters_of(other)));
}

TEST(Trainer, MeasuresAsOftenAsAsked) {
  TinyWorkload workload;
  Scene run;
  TrainerOptions options = options_for(5);
  options.training.evaluation.every = 2;
  const auto result = train(workload, run.context, options);
  ASSERT_TRUE(result.has_value());
  std::vector<bool> measured;
  for (const progress::EpochReport& epoch : result->epochs)
    measured.push_back(epoch.validation.has_value());
  EXPECT_EQ(measured, (std::vector<bool>{false, true, false, true, true}));
}

TEST(Trainer, MeasuresTheAskedPartsAndTestsAtTheEnd) {
  TinyWorkload workload;
  workload.parts = {Part::Train, Part::Validation, Part::Test};
  Scene run;
  TrainerOptions options = options_for(2);
  options.training.evaluation.parts = std::vector{Part::Validation, Part::Train};
  options.training.evaluation.max_batches = 3;
  const auto result = train(workload, run.context, options);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(
      workload.evaluated,
      (std::vector<std::pair<Part, int64_t>>{
          {Part::Train, 3},
          {Part::Validation, 3},
          {Part::Train, 3},
          {Part::Validation, 3},
          {Part::Test, -1}
      })
  );
  EXPECT_TRUE(result->epochs[0].train_set && result->epochs[0].validation);
  EXPECT_FALSE(result->epochs[0].test.has_value());
  EXPECT_TRUE(result->epochs[1].test.has_value());
  EXPECT_DOUBLE_EQ(
      result->report.metrics.at("train_set_accuracy"), result->epochs[1].train_set->value
  );
}

TEST(Trainer, CountsAStepForSeveralBatchesAndMarksEachOfThem) {
  // Five batches by two: three steps, the last of one batch.
  TinyWorkload workload;
  CountingSink sink;
  const StopToken stop;
  TrainerContext context{
      .communicator = comm::make_single_communicator(),
      .device = c10::kCPU,
      .progress = sink,
      .stop = stop
  };
  TrainerOptions options = options_for(2);
  options.training.gradient_accumulation = 2;
  const auto result = train(workload, context, options);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->report.global_steps, 6);
  EXPECT_EQ(result->epochs[0].train.count, 20);
  EXPECT_EQ(sink.marks, 10);
}

TEST(Trainer, StopsAtAStepAndResumesWithTheSameBits) {
  Scene undisturbed;
  TinyWorkload whole;
  const auto expected = train(whole, undisturbed.context, options_for(4));
  ASSERT_TRUE(expected.has_value());

  // The request comes while batch 2 of epoch 1 is fetched: three steps of that epoch are done then.
  const TemporaryFolder folder;
  TrainerOptions options = options_for(4);
  options.checkpoint = checkpoints_in(folder);
  TinyWorkload interrupted;
  Scene first;
  int64_t fetched = 0;
  interrupted.on_batch = [&](int64_t) {
    if (++fetched == 8) first.stop.request();
  };
  const auto stopped = train(interrupted, first.context, options);
  ASSERT_TRUE(stopped.has_value()) << stopped.error().message;
  EXPECT_TRUE(stopped->stopped);
  EXPECT_TRUE(stopped->report.preempted);
  EXPECT_EQ(stopped->report.global_steps, 8);
  EXPECT_NE(stopped->report.checkpoint, "");

  TinyWorkload resumed;
  Scene second;
  const auto result = train(resumed, second.context, options);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(resumed.starts.front(), (std::pair<int64_t, int64_t>{1, 3}));
  EXPECT_EQ(result->report.global_steps, 20);
  EXPECT_TRUE(same_bits(parameters_of(whole), parameters_of(resumed)));
  ASSERT_EQ(result->epochs.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(result->epochs[i].average_loss, expected->epochs[i].average_loss);
    EXPECT_EQ(result->epochs[i].train, expected->epochs[i].train);
    EXPECT_EQ(result->epochs[i].validation, expected->epochs[i].validation);
  }
}

TEST(Trainer, RepeatsAnEvaluationThatWasInterrupted) {
  const TemporaryFolder folder;
  TrainerOptions options = options_for(2);
  options.checkpoint = checkpoints_in(folder);
  options.checkpoint->every_epochs = 0;
  options.checkpoint->every_steps = 1000;
  TinyWorkload interrupted;
  Scene first;
  // The step of the last batch has agreed on going on when the request comes: in the evaluation
  // then.
  class StopAtValidation final : public progress::ProgressSink {
   public:
    explicit StopAtValidation(StopToken& stop) : stop_(stop) {}
    void on_phase(progress::Phase phase) override {
      if (phase == progress::Phase::Validate) stop_.request();
    }
    void on_step(const progress::StepReport&) override {}
    void on_epoch(const progress::EpochReport&) override {}
    void on_final(const progress::FinalReport&) override {}
    void on_checkpoint(const progress::CheckpointReport&) override {}
    void on_message(const std::string&) override {}

   private:
    StopToken& stop_;
  } sink(first.stop);
  TrainerContext context{
      .communicator = comm::make_single_communicator(),
      .device = c10::kCPU,
      .progress = sink,
      .stop = first.stop
  };
  const auto stopped = train(interrupted, context, options);
  ASSERT_TRUE(stopped.has_value());
  EXPECT_TRUE(stopped->stopped);
  EXPECT_TRUE(stopped->epochs.empty());

  TinyWorkload resumed;
  Scene second;
  const auto result = train(resumed, second.context, options);
  ASSERT_TRUE(result.has_value());
  ASSERT_EQ(result->epochs.size(), 2U);
  EXPECT_TRUE(result->epochs[0].validation.has_value());
  EXPECT_EQ(result->epochs[0].train.count, 20);
  EXPECT_EQ(result->report.global_steps, 10);
}

// Keeps what a rank says of its steps and checkpoints.
class RecordingSink final : public progress::ProgressSink {
 public:
  void on_phase(progress::Phase) override {}
  void on_step(const progress::StepReport& report) override { steps.push_back(report); }
  void on_epoch(const progress::EpochReport&) override {}
  void on_final(const progress::FinalReport&) override {}
  void on_checkpoint(const progress::CheckpointReport& report) override {
    checkpoints.push_back(report);
  }
  void on_message(const std::string&) override {}

  std::vector<progress::StepReport> steps;
  std::vector<progress::CheckpointReport> checkpoints;
};

Result<TrainingResult> train_recorded(
    Workload& workload, const TrainerOptions& options, RecordingSink& sink
) {
  const StopToken stop;
  TrainerContext context{
      .communicator = comm::make_single_communicator(),
      .device = c10::kCPU,
      .progress = sink,
      .stop = stop
  };
  return train(workload, context, options);
}

TEST(Trainer, LeavesTheFirstStepsOfAnEpochOutOfThePaceOfTheOthers) {
  TinyWorkload workload;
  RecordingSink sink;
  const auto result = train_recorded(workload, options_for(2), sink);
  ASSERT_TRUE(result.has_value());
  std::vector<bool> warm_up;
  for (const progress::StepReport& step : sink.steps) warm_up.push_back(step.warm_up);
  EXPECT_EQ(
      warm_up, (std::vector<bool>{true, true, false, false, false, true, true, false, false, false})
  );
  EXPECT_EQ(result->epochs[1].steady_steps.pieces, 3);
  EXPECT_EQ(result->report.steady_steps.pieces, 6);
  EXPECT_LE(result->epochs[1].steady_steps.seconds, result->epochs[1].step_seconds.total);
}

TEST(Trainer, CountsTheBatchesOfAllEvaluationsOfAnEpoch) {
  TinyWorkload workload;
  workload.parts = {Part::Validation, Part::Test};
  Scene run;
  const auto result = train(workload, run.context, options_for(2));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->epochs[0].evaluation.pieces, 2);
  EXPECT_EQ(result->epochs[1].evaluation.pieces, 4);
  EXPECT_GT(result->epochs[1].evaluation.seconds, 0);
}

TEST(Trainer, ReportsTheBytesOfCheckpoints) {
  const TemporaryFolder folder;
  TrainerOptions options = options_for(1);
  options.checkpoint = checkpoints_in(folder);
  TinyWorkload workload;
  RecordingSink sink;
  ASSERT_TRUE(train_recorded(workload, options, sink).has_value());
  ASSERT_EQ(sink.checkpoints.size(), 1U);
  EXPECT_TRUE(sink.checkpoints[0].written);
  EXPECT_GT(sink.checkpoints[0].seconds, 0);
  int64_t bytes = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder.path())) {
    const std::string name = file.path().filename().string();
    if (file.is_regular_file() && !name.starts_with("FENCE") && name != report::kRecordFile)
      bytes += static_cast<int64_t>(file.file_size());
  }
  EXPECT_EQ(sink.checkpoints[0].bytes, bytes);
}

// Nothing can be written under the path from then on.
void put_file_in_place_of(const std::filesystem::path& folder) {
  std::filesystem::remove_all(folder);
  std::ofstream(folder) << "in the way";
}

TEST(Trainer, ReportsACheckpointThatCouldNotBeWritten) {
  const TemporaryFolder folder;
  TrainerOptions options = options_for(1);
  options.checkpoint = checkpoints_in(folder);
  TinyWorkload workload;
  workload.on_batch = [&](int64_t batch) {
    if (batch < 4) return;
    put_file_in_place_of(options.checkpoint->path);
  };
  RecordingSink sink;
  const auto result = train_recorded(workload, options, sink);
  ASSERT_FALSE(result.has_value());
  ASSERT_EQ(sink.checkpoints.size(), 1U);
  EXPECT_FALSE(sink.checkpoints[0].written);
}

TEST(Trainer, ReportsACheckpointFolderThatCannotBeMade) {
  const TemporaryFolder folder;
  TrainerOptions options = options_for(1);
  options.checkpoint = checkpoints_in(folder);
  put_file_in_place_of(options.checkpoint->path);
  TinyWorkload workload;
  RecordingSink sink;
  ASSERT_FALSE(train_recorded(workload, options, sink).has_value());
  ASSERT_EQ(sink.checkpoints.size(), 1U);
  EXPECT_FALSE(sink.checkpoints[0].written);
}

TEST(Trainer, ReportsNoFailedCheckpointWhenANewerRunTookTheFolderOver) {
  const TemporaryFolder folder;
  TrainerOptions options = options_for(1);
  options.checkpoint = checkpoints_in(folder);
  options.incarnation.attempt = 1;
  TinyWorkload newer;
  RecordingSink sink;
  ASSERT_TRUE(train_recorded(newer, options, sink).has_value());
  options.incarnation.attempt = 0;
  TinyWorkload older;
  RecordingSink late;
  ASSERT_FALSE(train_recorded(older, options, late).has_value());
  EXPECT_TRUE(late.checkpoints.empty());
}

TEST(Trainer, ReportsTheModelsMemoryWithGradientsAndOptimizer) {
  TrainerOptions options = options_for(1);
  options.training.optimizer.type = api::OptimizerType::Adam;
  TinyWorkload workload;
  RecordingSink sink;
  ASSERT_TRUE(train_recorded(workload, options, sink).has_value());
  int64_t parameters = 0;
  for (const at::Tensor& parameter : workload.module().parameters())
    parameters += static_cast<int64_t>(parameter.nbytes());
  const auto step_counts =
      static_cast<int64_t>(workload.module().parameters().size() * sizeof(int64_t));
  ASSERT_FALSE(sink.steps.empty());
  EXPECT_EQ(sink.steps.back().memory.model, 4 * parameters + step_counts)
      << "a parameter, its gradient and Adam's two moments";
}

TEST(Trainer, StartsAnewWhenResumeIsNever) {
  const TemporaryFolder folder;
  TrainerOptions options = options_for(1);
  options.checkpoint = checkpoints_in(folder);
  Scene run;
  TinyWorkload first;
  ASSERT_TRUE(train(first, run.context, options).has_value());
  options.incarnation.job_uid = "another";
  options.checkpoint->resume = "Never";
  TinyWorkload second;
  ASSERT_TRUE(train(second, run.context, options).has_value());
  EXPECT_EQ(second.starts.front(), (std::pair<int64_t, int64_t>{0, 0}));
}

TEST(Trainer, LoadsTheNamedCheckpointInALaterAttemptIfTheFirstDidNot) {
  const TemporaryFolder folder;
  TrainerOptions options = options_for(1);
  options.checkpoint = checkpoints_in(folder);
  Scene run;
  TinyWorkload first;
  const auto named = train(first, run.context, options);
  ASSERT_TRUE(named.has_value());
  options.training.epochs = 3;
  options.incarnation.job_uid = "longer";
  TinyWorkload second;
  ASSERT_TRUE(train(second, run.context, options).has_value());

  options.incarnation = {.job_uid = "another", .attempt = 2, .round = 1};
  options.checkpoint->resume = named->report.checkpoint;
  TinyWorkload third;
  ASSERT_TRUE(train(third, run.context, options).has_value());
  EXPECT_EQ(third.starts.front(), (std::pair<int64_t, int64_t>{0, 5}));
}

TEST(Trainer, ResumesARestartedRoundEvenWhenResumeIsNever) {
  const TemporaryFolder folder;
  TrainerOptions options = options_for(2);
  options.checkpoint = checkpoints_in(folder);
  options.checkpoint->resume = "Never";
  Scene first;
  TinyWorkload interrupted;
  int64_t fetched = 0;
  interrupted.on_batch = [&](int64_t) {
    if (++fetched == 7) first.stop.request();
  };
  ASSERT_TRUE(train(interrupted, first.context, options).has_value());
  options.incarnation.round = 1;
  Scene second;
  TinyWorkload resumed;
  ASSERT_TRUE(train(resumed, second.context, options).has_value());
  EXPECT_EQ(resumed.starts.front(), (std::pair<int64_t, int64_t>{1, 2}));
}

TEST(Trainer, StartsFromTheCheckpointThatResumeNames) {
  const TemporaryFolder old_folder;
  TrainerOptions options = options_for(1);
  options.checkpoint = checkpoints_in(old_folder);
  Scene run;
  TinyWorkload first;
  const auto trained = train(first, run.context, options);
  ASSERT_TRUE(trained.has_value());
  const TemporaryFolder new_folder;
  options = options_for(2);
  options.checkpoint = checkpoints_in(new_folder);
  options.checkpoint->resume = trained->report.checkpoint;
  TinyWorkload second;
  const auto result = train(second, run.context, options);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->report.global_steps, 10);
  EXPECT_EQ(second.starts.back(), (std::pair<int64_t, int64_t>{1, 0}));

  TinyWorkload undisturbed;
  options.checkpoint.reset();
  ASSERT_TRUE(train(undisturbed, run.context, options).has_value());
  EXPECT_TRUE(same_bits(parameters_of(second), parameters_of(undisturbed)));
}

TEST(Trainer, ResumesWithOtherDataOnlyFromACheckpointThatIsNamed) {
  const TemporaryFolder folder;
  TrainerOptions options = options_for(1);
  options.checkpoint = checkpoints_in(folder);
  options.dataset_digest = "xxh64:1";
  Scene run;
  TinyWorkload first;
  const auto trained = train(first, run.context, options);
  ASSERT_TRUE(trained.has_value());

  options.incarnation.job_uid = "another";
  options.dataset_digest = "xxh64:2";
  TinyWorkload second;
  const auto refused = train(second, run.context, options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(refused.error().message, HasSubstr(trained->report.checkpoint));

  options.incarnation.job_uid = "further";
  options.training.epochs = 2;
  options.checkpoint->resume = trained->report.checkpoint;
  TinyWorkload third;
  const auto further = train(third, run.context, options);
  ASSERT_TRUE(further.has_value()) << further.error().message;
  EXPECT_EQ(further->report.global_steps, 10);
}

TEST(Trainer, RefusesACheckpointPathThatDoesNotExist) {
  const TemporaryFolder folder;
  TrainerOptions options = options_for(1);
  options.checkpoint = checkpoints_in(folder);
  options.checkpoint->resume = folder.path() + "/none.manifest";
  Scene run;
  TinyWorkload workload;
  const auto result = train(workload, run.context, options);
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, HasSubstr("spec.checkpoint.resume"));
}

TEST(Trainer, NamesTheLearningRateWhenTheLossIsNotFinite) {
  TinyWorkload workload;
  Scene run;
  TrainerOptions options = options_for(3);
  options.training.optimizer.type = api::OptimizerType::SGD;
  options.training.optimizer.learning_rate.text = "1e30";
  const auto result = train(workload, run.context, options);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(result.error().message, HasSubstr("spec.training.optimizer.learningRate (1e30)"));
}

// Points so large that the first update overflows, after a loss that is finite.
TEST(Trainer, RefusesParametersThatTheLastUpdateMadeInfinite) {
  for (const int64_t every_steps : {0, 1}) {
    SCOPED_TRACE(every_steps);
    const TemporaryFolder folder;
    TinyWorkload workload(1e3);
    TrainerOptions options = options_for(1);
    options.training.gradient_accumulation = 5;  // one step
    options.training.optimizer.type = api::OptimizerType::SGD;
    options.training.optimizer.learning_rate.text = "1e37";
    if (every_steps > 0) {
      options.checkpoint = checkpoints_in(folder);
      options.checkpoint->every_steps = every_steps;
    }
    RecordingSink sink;
    const auto result = train_recorded(workload, options, sink);
    ASSERT_EQ(sink.steps.size(), 1U);
    EXPECT_TRUE(std::isfinite(sink.steps[0].loss));
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().kind, ErrorKind::Configuration);
    EXPECT_THAT(result.error().message, HasSubstr("weight holds a NaN or an infinity"));
    EXPECT_THAT(result.error().message, HasSubstr("spec.training.optimizer.learningRate (1e37)"));
    EXPECT_TRUE(sink.checkpoints.empty());
  }
}

TEST(Trainer, SavesNoCheckpointAfterALossThatIsNotFinite) {
  const TemporaryFolder folder;
  TinyWorkload workload;
  TrainerOptions options = options_for(3);
  options.checkpoint = checkpoints_in(folder);
  options.checkpoint->every_steps = 2;
  options.training.optimizer.type = api::OptimizerType::SGD;
  options.training.optimizer.learning_rate.text = "1e20";
  RecordingSink sink;
  const auto result = train_recorded(workload, options, sink);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(result.error().message, HasSubstr("the loss is"));
  ASSERT_FALSE(sink.steps.empty());
  EXPECT_FALSE(std::isfinite(sink.steps.back().loss)) << "a metric shows it";
  EXPECT_EQ(sink.checkpoints.size(), (sink.steps.size() - 1) / 2);
}

TEST(Trainer, JoinGivesTheSameBitsAsShadowSteps) {
  TinyWorkload shadow;
  TinyWorkload join;
  Scene run;
  TrainerOptions options = options_for(2);
  ASSERT_TRUE(train(shadow, run.context, options).has_value());
  options.training.uneven_inputs = api::UnevenInputs::Join;
  ASSERT_TRUE(train(join, run.context, options).has_value());
  EXPECT_TRUE(same_bits(parameters_of(shadow), parameters_of(join)));
}

}  // namespace
}  // namespace gnn::training
