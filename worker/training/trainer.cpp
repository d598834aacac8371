#include "worker/training/trainer.h"

#include "common/log.h"
#include "worker/checkpoint/state_capture.h"
#include "worker/comm/ddp.h"
#include "worker/embedding/embeddings.h"
#include "worker/progress/console_sink.h"
#include "worker/training/link_evaluator.h"
#include "worker/training/meters.h"
#include "worker/training/parameters_hash.h"
#include "worker/training/step_runner.h"
#include "worker/training/training_checkpoints.h"
#include "worker/training/training_state.h"
#include "worker/training/validations.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

comm::DdpOptions ddp_options(const api::Training& training) {
  comm::DdpOptions options;
  options.average = training.weigh_by_batch_size ? comm::GradientAverage::BatchSize
                                                 : comm::GradientAverage::WorldSize;
  return options;
}

// Whether something that happens every `every` times is due after `count` times; never for 0.
bool is_due(int64_t every, int64_t count) {
  return every > 0 && count % every == 0;
}

// Bytes of parameters, gradients, buffers and the optimizer's state.
int64_t bytes_of(torch::nn::Module& module, const torch::optim::Optimizer& optimizer) {
  int64_t bytes = checkpoint::optimizer_bytes(optimizer);
  const auto count = [&bytes](const at::Tensor& tensor) {
    if (tensor.defined()) bytes += static_cast<int64_t>(tensor.nbytes());
  };
  for (const at::Tensor& parameter : module.parameters()) {
    count(parameter);
    count(parameter.grad());
  }
  for (const at::Tensor& buffer : module.buffers()) count(buffer);
  return bytes;
}

// Where a report keeps the measure of `part`.
std::optional<progress::Measure>& measure_of(progress::EpochReport& report, Part part) {
  switch (part) {
    case Part::Train:
      return report.train_set;
    case Part::Validation:
      return report.validation;
    case Part::Test:
      break;
  }
  return report.test;
}

// The name that the evaluations' measures have.
std::string metric_name_of(const api::Evaluation& evaluation) {
  const bool accuracy = evaluation.metric.value_or(api::Metric::Accuracy) == api::Metric::Accuracy;
  return accuracy ? std::string(progress::kAccuracyMetric) : link_metric_name(evaluation);
}

// Of no epoch, before the first one.
Validations no_validations(const api::Training& training) {
  const std::optional<api::EarlyStopping>& stopping = training.early_stopping;
  return Validations(
      metric_name_of(training.evaluation), stopping ? stopping->min_delta.value() : 0
  );
}

// The first steps of an epoch fill caches and the loader's queue. The tutorials leave out ten, too.
bool is_warm_up(int64_t steps_run, int64_t steps_per_epoch) {
  return steps_run < std::min<int64_t>(10, steps_per_epoch / 2);
}

// Counts the batches of evaluations.
class CountEvaluatedBatches final : public progress::NullSink {
 public:
  explicit CountEvaluatedBatches(progress::Pace& pace) : pace_(pace) {}
  void on_evaluation(const progress::EvaluationProgress& evaluation) override {
    if (evaluation.unit == progress::EvaluationUnit::Batches) ++pace_.pieces;
  }

 private:
  progress::Pace& pace_;
};

// The epochs of a training, with evaluations and checkpoints between them. Each member function
// that reduces something is collective.
class TrainingLoop {
 public:
  TrainingLoop(
      Workload& workload, TrainerContext& context, const TrainerOptions& options, StepRunner runner
  )
      : workload_(workload),
        context_(context),
        options_(options),
        runner_(std::move(runner)),
        validations_(no_validations(options.training)) {}

  // train_all(), and how it ended in the record.
  Result<TrainingResult> run();

 private:
  Result<TrainingResult> train_all();
  [[nodiscard]] const api::Training& training() const { return options_.training; }

  Status start_epoch();
  // These return whether the ranks agreed to stop.
  Result<bool> run_steps();
  Result<bool> finish_epoch();
  Result<bool> measure_epoch();
  Result<bool> measure(const std::vector<Part>& parts);
  Result<bool> stop_in_evaluation();
  Result<bool> test_best();
  Result<bool> predict();
  // Gives the model the parameters of a checkpoint, to be measured or exported.
  Status take_parameters(const std::string& checkpoint);
  [[nodiscard]] std::vector<Part> due_parts() const;
  Result<EvaluatedParts> evaluate(const std::vector<Part>& parts);
  void report_step(progress::StepReport report, const comm::StepResult& agreed);
  [[nodiscard]] progress::MemoryByOwner memory();
  [[nodiscard]] progress::FinalReport final_report();

  [[nodiscard]] bool keeps_best() const { return options_.checkpoint && options_.checkpoint->best; }
  [[nodiscard]] bool tests_best() const {
    return training().evaluation.test_model == api::TestModel::Best;
  }
  // Whether validation has not improved for as long as the job waits.
  [[nodiscard]] static bool ends_early(
      const api::Training& training, const Validations& validations
  );
  [[nodiscard]] Status check_validation_set() const;
  // Counts the epoch that was measured, moves on to the next one, and saves what is to be kept.
  Status close_epoch();
  Status keep_best(const Validations::Best& best);
  [[nodiscard]] std::optional<progress::BestEpoch> best_epoch() const;
  Status recount_validations(bool of_another_training);
  void say_that_it_ends_early();

  [[nodiscard]] RunConditions conditions() const;
  [[nodiscard]] Result<checkpoint::CheckpointState> capture(const progress::EpochSums& sums) const;
  [[nodiscard]] tl::unexpected<Error> not_finite(const std::string& what) const;
  // Makes the replicas one model that is fit to be measured and kept: all values finite on all ranks
  // (the last update is of no loss yet), and the same buffers.
  Status agree_on_model();
  Status save_checkpoint();
  // Also where there is one of this step.
  Status write_checkpoint();
  Status open_export();
  // Writes the module's present parameters, which are those after `epochs` epochs.
  Status write_model(const std::string& name, int64_t epochs);
  Status export_models();
  void warn_of_differences(const checkpoint::CheckpointState& state) const;
  Status restore(const checkpoint::CheckpointState& state);
  Status resume();
  // Begins the record of a run that starts from `found`.
  void open_record(const Resume& found);
  Status record_epoch();
  [[nodiscard]] report::RankRecord epoch_of_rank();
  [[nodiscard]] AnswerRequest answers();

  Workload& workload_;
  TrainerContext& context_;
  const TrainerOptions& options_;
  StepRunner runner_;

  TrainingState state_;
  Validations validations_;  // of the epochs in state_
  std::string best_checkpoint_;
  std::optional<progress::Measure> test_of_best_;
  progress::EpochReport epoch_report_;
  LapTimer epoch_timer_;
  LapTimer run_timer_;
  std::optional<TrainingCheckpoints> checkpoints_;
  std::optional<ModelExport> model_export_;
  std::optional<RunRecorder> recorder_;    // on rank 0, with checkpoints
  progress::RowOrigins rows_before_;       // of training, when the epoch began
  std::optional<double> learning_rate_{};  // of the last step
  std::string newest_checkpoint_;
  int64_t saved_step_ = -1;   // global step of the newest checkpoint
  int64_t agreed_step_ = -1;  // global step of the last agree_on_model()
  int64_t first_step_ = 0;    // of this epoch that this run made
  int64_t resumed_step_ = 0;  // global step that this run began at
  progress::Pace steady_steps_;
  int64_t model_bytes_ = 0;  // known from the first step on, when all of it is there
  bool holds_best_ =
      false;  // whether the model has the best parameters, taken from their checkpoint
  bool stopped_ = false;
};

Status TrainingLoop::start_epoch() {
  epoch_report_ = {};
  epoch_report_.epoch = state_.position.epoch;
  epoch_report_.epochs = training().epochs;
  first_step_ = state_.position.step;
  return runner_.start_epoch(state_.position);
}

Result<bool> TrainingLoop::run_steps() {
  context_.progress.on_phase(progress::Phase::Train);
  workload_.module().train();
  while (true) {
    LapTimer timer;
    progress::StepReport report;
    report.epoch = state_.position.epoch;
    report.epochs = training().epochs;
    report.step = state_.position.step;
    report.steps_per_epoch = runner_.steps_per_epoch();
    report.global_step = state_.global_step;
    GNN_ASSIGN_OR_RETURN(
        const std::optional<comm::StepResult> agreed,
        runner_.run(state_.position, state_.sums, report)
    );
    if (!agreed) return false;
    if (!agreed->abandoned) {
      report.seconds.total = timer.lap();
      report_step(report, *agreed);
      if (agreed->total_batch_size > 0 && !std::isfinite(agreed->mean_loss))
        return not_finite("the loss is " + std::to_string(agreed->mean_loss));
      if (report.gradient_norm && !std::isfinite(*report.gradient_norm))
        return not_finite("the norm of the gradients is " + std::to_string(*report.gradient_norm));
      ++state_.position.step;
      ++state_.global_step;
    }

    const int64_t every = options_.checkpoint ? options_.checkpoint->every_steps : 0;
    if (agreed->stop || is_due(every, state_.global_step)) GNN_RETURN_IF_ERROR(save_checkpoint());
    if (agreed->stop) return true;
  }
}

void TrainingLoop::report_step(progress::StepReport report, const comm::StepResult& agreed) {
  report.loss = agreed.mean_loss;
  report.warm_up = is_warm_up(report.step - first_step_, report.steps_per_epoch);
  if (!report.warm_up) {
    epoch_report_.steady_steps.add(report.seconds.total);
    steady_steps_.add(report.seconds.total);
  }
  learning_rate_ = report.learning_rate;
  epoch_report_.step_seconds += report.seconds;
  epoch_report_.items += report.items;
  epoch_report_.sampled_edges += report.sampled_edges;
  report.data_path = workload_.data_path();
  report.memory = memory();
  context_.progress.on_step(report);
}

Result<EvaluatedParts> TrainingLoop::evaluate(const std::vector<Part>& parts) {
  workload_.module().eval();
  const at::NoGradGuard no_grad;
  CountEvaluatedBatches count(epoch_report_.evaluation);
  progress::TeeSink progress({&context_.progress, &count});
  LapTimer timer;
  Result<EvaluatedParts> evaluated = workload_.evaluate_parts(
      parts,
      {.stop = context_.stop,
       .progress = progress,
       .max_batches = training().evaluation.max_batches,
       .answers = answers()}
  );
  epoch_report_.evaluation.seconds += timer.lap();
  return evaluated;
}

// The next run starts with this evaluation.
Result<bool> TrainingLoop::stop_in_evaluation() {
  GNN_RETURN_IF_ERROR(save_checkpoint());
  return true;
}

// Checkpoint, evaluation and report after an epoch's last step.
Result<bool> TrainingLoop::finish_epoch() {
  const int64_t epochs_done = state_.position.epoch + 1;
  GNN_ASSIGN_OR_RETURN(const progress::EpochSums sums, reduce(*context_.communicator, state_.sums));
  if (!std::isfinite(sums.average_loss()))
    return not_finite("the average loss is " + std::to_string(sums.average_loss()));
  GNN_RETURN_IF_ERROR(agree_on_model());
  const int64_t every = options_.checkpoint ? options_.checkpoint->every_epochs : 0;
  if (epochs_done == training().epochs || is_due(every, epochs_done))
    GNN_RETURN_IF_ERROR(save_checkpoint());
  epoch_report_.steps = state_.position.step;
  epoch_report_.global_step = state_.global_step;
  epoch_report_.average_loss = sums.average_loss();
  epoch_report_.train = sums.measure();
  GNN_ASSIGN_OR_RETURN(const bool stopped, measure_epoch());
  if (stopped) return true;
  epoch_report_.seconds = epoch_timer_.lap();
  GNN_RETURN_IF_ERROR(close_epoch());
  epoch_report_.best = best_epoch();
  context_.progress.on_epoch(epoch_report_);
  GNN_RETURN_IF_ERROR(record_epoch());
  return false;
}

Status TrainingLoop::close_epoch() {
  state_.epochs.push_back(epoch_report_);
  state_.position = {.epoch = state_.position.epoch + 1, .step = 0};
  state_.sums = {};
  const bool is_best = validations_.add(epoch_report_);
  if (is_best && keeps_best()) return keep_best(*validations_.best());
  // So that a restart knows that nothing is left to do.
  if (ends_early(training(), validations_)) return write_checkpoint();
  return {};
}

// The checkpoint holds this epoch's evaluation, as a run that goes on from it does not repeat it. The
// one that was best before goes with the next checkpoint.
Status TrainingLoop::keep_best(const Validations::Best& best) {
  GNN_RETURN_IF_ERROR(write_checkpoint());
  best_checkpoint_ = newest_checkpoint_;
  checkpoints_->keep_also(best.global_step);
  return {};
}

std::optional<progress::BestEpoch> TrainingLoop::best_epoch() const {
  const std::optional<Validations::Best>& best = validations_.best();
  if (!best) return std::nullopt;
  return progress::BestEpoch{
      .epoch = best->epoch, .value = best->value, .checkpoint = best_checkpoint_
  };
}

bool TrainingLoop::ends_early(const api::Training& training, const Validations& validations) {
  const std::optional<api::EarlyStopping>& stopping = training.early_stopping;
  return stopping && validations.without_improvement() >= stopping->patience;
}

void TrainingLoop::say_that_it_ends_early() {
  const std::string metric = metric_name_of(training().evaluation);
  const std::optional<Validations::Best>& best = validations_.best();
  context_.progress.on_message(
      "Stopped early: the validation " + metric + " has not improved in " +
      std::to_string(validations_.without_improvement()) + " evaluations" +
      (best ? ", the best was in epoch " + std::to_string(best->epoch + 1) : std::string())
  );
}

// What is measured after this epoch.
std::vector<Part> TrainingLoop::due_parts() const {
  const int64_t epochs_done = state_.position.epoch + 1;
  const bool last = epochs_done == training().epochs;
  const bool due = last || is_due(training().evaluation.every, epochs_done);
  const std::vector<Part> asked =
      training().evaluation.parts.value_or(std::vector{Part::Validation});
  const auto is_asked = [&](Part part) {
    const bool at_the_end = last && !tests_best();
    if (part == Part::Test && (at_the_end || (due && options_.test_with_validation))) return true;
    return due && std::ranges::find(asked, part) != asked.end();
  };
  std::vector<Part> parts;
  for (const Part part : {Part::Train, Part::Validation, Part::Test}) {
    if (is_asked(part) && workload_.has(part)) parts.push_back(part);
  }
  return parts;
}

Result<bool> TrainingLoop::measure_epoch() {
  GNN_ASSIGN_OR_RETURN(const bool stopped, measure(due_parts()));
  if (stopped || epoch_report_.test || tests_best() || !workload_.has(Part::Test)) return stopped;
  // Validation decides whether this was the last epoch, which the test is of.
  Validations with_this = validations_;
  with_this.add(epoch_report_);
  if (!ends_early(training(), with_this)) return false;
  return measure({Part::Test});
}

Result<bool> TrainingLoop::measure(const std::vector<Part>& parts) {
  if (parts.empty()) return false;
  GNN_ASSIGN_OR_RETURN(const EvaluatedParts evaluated, evaluate(parts));
  if (!evaluated) return stop_in_evaluation();
  for (size_t i = 0; i < parts.size(); ++i) measure_of(epoch_report_, parts[i]) = (*evaluated)[i];
  return false;
}

// The test set, by the parameters of the best epoch; they stay in the model. All else about the
// training is settled: what was stopped here is done again by the next run.
Result<bool> TrainingLoop::test_best() {
  const std::optional<Validations::Best>& best = validations_.best();
  if (!tests_best() || !workload_.has(Part::Test)) return false;
  if (!best) {
    context_.progress.on_message("The test set is not measured: no epoch has a best validation");
    return false;
  }
  if (best->global_step != state_.global_step) {
    GNN_RETURN_IF_ERROR(take_parameters(best_checkpoint_));
  }
  GNN_ASSIGN_OR_RETURN(const EvaluatedParts evaluated, evaluate({Part::Test}));
  if (!evaluated) return true;
  test_of_best_ = evaluated->front();
  return false;
}

// By the parameters that the test set is measured on.
Result<bool> TrainingLoop::predict() {
  if (!workload_.predicts()) return false;
  const std::optional<Validations::Best>& best = validations_.best();
  // Without a test set, test_best() has not taken them.
  if (tests_best() && best && best->global_step != state_.global_step && !holds_best_)
    GNN_RETURN_IF_ERROR(take_parameters(best_checkpoint_));
  workload_.module().eval();
  const at::NoGradGuard no_grad;
  GNN_ASSIGN_OR_RETURN(
      const bool written, workload_.predict({.stop = context_.stop, .progress = context_.progress})
  );
  return !written;
}

Status TrainingLoop::take_parameters(const std::string& checkpoint) {
  holds_best_ = checkpoint == best_checkpoint_;
  GNN_ASSIGN_OR_RETURN(const checkpoint::CheckpointState state, checkpoints_->load(checkpoint));
  GNN_RETURN_IF_ERROR(checkpoint::restore_module(workload_.module(), state.model));
  if (embedding::Embeddings* const embeddings = workload_.embeddings())
    GNN_RETURN_IF_ERROR(embeddings->restore(state.embeddings));
  return {};
}

progress::MemoryByOwner TrainingLoop::memory() {
  if (model_bytes_ == 0) model_bytes_ = bytes_of(workload_.module(), runner_.optimizer());
  const embedding::Embeddings* const embeddings = workload_.embeddings();
  progress::MemoryByOwner memory = workload_.memory();
  memory.model = model_bytes_ + (embeddings != nullptr ? embeddings->bytes() : 0);
  return memory;
}

progress::FinalReport TrainingLoop::final_report() {
  progress::FinalReport report;
  report.epochs = state_.position.epoch;
  report.global_steps = state_.global_step;
  report.checkpoint = newest_checkpoint_;
  std::vector<at::Tensor> tensors = workload_.module().parameters();
  for (const at::Tensor& buffer : workload_.module().buffers()) tensors.push_back(buffer);
  const embedding::Embeddings* const embeddings = workload_.embeddings();
  report.parameters_hash = embeddings != nullptr ? hash_of(tensors, *embeddings) : hash_of(tensors);
  report.preempted = stopped_;
  report.best = best_epoch();
  report.seconds = run_timer_.lap();
  report.steady_steps = steady_steps_;
  report.run_steps = state_.global_step - resumed_step_;
  if (state_.epochs.empty()) return report;
  const progress::EpochReport& epoch = state_.epochs.back();
  report.average_loss = epoch.average_loss;
  report.metric = epoch.metric();
  const auto put = [&report](const char* split, const progress::Measure& measure) {
    report.metrics[split + ("_" + measure.metric)] = measure.value;
  };
  put("train", epoch.train);
  if (epoch.train_set) put("train_set", *epoch.train_set);
  if (epoch.validation) put("validation", *epoch.validation);
  if (epoch.test && !tests_best()) put("test", *epoch.test);
  if (epoch.test && !tests_best()) report.test_model = "last";
  return report;
}

RunConditions TrainingLoop::conditions() const {
  return {
      .world_size = context_.communicator->world_size(),
      .steps_per_epoch = runner_.steps_per_epoch(),
      .config_hash = options_.config_hash,
      .bucket_layout_hash = std::to_string(runner_.layout_hash()),
      .environment =
          {{"threads", std::to_string(at::get_num_threads())},
           {"cpu", at::get_cpu_capability()},
           {"device", context_.device.str()},
           {kDatasetCondition, options_.dataset_digest}},
  };
}

Result<checkpoint::CheckpointState> TrainingLoop::capture(const progress::EpochSums& sums) const {
  checkpoint::CheckpointState state = to_checkpoint(state_, sums, conditions());
  state.model = checkpoint::capture_module(workload_.module());
  GNN_ASSIGN_OR_RETURN(state.optimizer, checkpoint::capture_optimizer(runner_.optimizer()));
  // Not copies, which would be as large again: it is written before the next step.
  if (const embedding::Embeddings* const embeddings = workload_.embeddings())
    state.embeddings = embeddings->state();
  return state;
}

tl::unexpected<Error> TrainingLoop::not_finite(const std::string& what) const {
  return fail(
      ErrorKind::Configuration,
      "epoch " + std::to_string(state_.position.epoch) + ", step " +
          std::to_string(state_.position.step) + ": " + what +
          "; spec.training.optimizer.learningRate (" + training().optimizer.learning_rate.text +
          ") may be too high"
  );
}

Status TrainingLoop::agree_on_model() {
  if (agreed_step_ == state_.global_step) return {};
  GNN_ASSIGN_OR_RETURN(
      std::optional<std::string> found,
      checkpoint::find_not_finite(workload_.module(), runner_.optimizer())
  );
  const embedding::Embeddings* const embeddings = workload_.embeddings();
  if (!found && embeddings != nullptr) found = embeddings->find_not_finite();
  GNN_ASSIGN_OR_RETURN(
      const std::vector<double> ranks,
      comm::all_reduce_sums(*context_.communicator, {found ? 1.0 : 0.0})
  );
  if (ranks[0] > 0) {
    const std::string where = found ? *found : "a tensor of another rank";
    return not_finite(where + " holds a NaN or an infinity");
  }
  GNN_RETURN_IF_ERROR(runner_.share_buffers(state_.position));
  agreed_step_ = state_.global_step;
  return {};
}

Status TrainingLoop::save_checkpoint() {
  GNN_RETURN_IF_ERROR(agree_on_model());
  if (saved_step_ == state_.global_step) return {};
  return write_checkpoint();
}

Status TrainingLoop::write_checkpoint() {
  if (!checkpoints_) return {};
  context_.progress.on_phase(progress::Phase::Checkpoint);
  GNN_ASSIGN_OR_RETURN(const progress::EpochSums sums, reduce(*context_.communicator, state_.sums));
  GNN_ASSIGN_OR_RETURN(newest_checkpoint_, checkpoints_->save([&] { return capture(sums); }));
  saved_step_ = state_.global_step;
  return {};
}

Status TrainingLoop::open_export() {
  if (!options_.model_export) return {};
  GNN_ASSIGN_OR_RETURN(
      model_export_,
      ModelExport::open(*options_.model_export, context_.communicator, context_.files)
  );
  return {};
}

Status TrainingLoop::write_model(const std::string& name, int64_t epochs) {
  ModelFacts facts{
      .config_hash = options_.config_hash,
      .dataset_digest = options_.dataset_digest,
      .epochs = epochs,
  };
  for (const progress::EpochReport& epoch : state_.epochs) {
    if (epoch.epoch + 1 == epochs) set_metric(epoch, facts);
  }
  GNN_ASSIGN_OR_RETURN(
      const std::string path,
      model_export_->write(name, workload_.module(), workload_.embeddings(), facts)
  );
  context_.progress.on_message("Exported " + path);
  return {};
}

Status TrainingLoop::export_models() {
  if (!model_export_) return {};
  context_.progress.on_phase(progress::Phase::Checkpoint);
  const std::optional<Validations::Best>& best = validations_.best();
  const bool writes_best = keeps_best() && best;
  const bool is_last = best && best->global_step == state_.global_step;
  // test_best() and predict() leave the best in the model.
  const bool has_best = holds_best_ && !is_last;
  if (!has_best) GNN_RETURN_IF_ERROR(write_model("last", state_.position.epoch));
  if (writes_best) {
    if (!has_best && !is_last) GNN_RETURN_IF_ERROR(take_parameters(best_checkpoint_));
    GNN_RETURN_IF_ERROR(write_model("best", best->epoch + 1));
  }
  if (!has_best) return {};
  GNN_RETURN_IF_ERROR(take_parameters(newest_checkpoint_));
  return write_model("last", state_.position.epoch);
}

void TrainingLoop::warn_of_differences(const checkpoint::CheckpointState& state) const {
  if (context_.communicator->rank() != 0) return;
  for (const Difference& found : differences(state, conditions())) {
    log_warning(
        "the checkpoint was made under other conditions; results may differ in their last bits",
        {{"what", found.what}, {"checkpoint", found.checkpoint}, {"now", found.now}}
    );
  }
}

Status TrainingLoop::restore(const checkpoint::CheckpointState& state) {
  GNN_RETURN_IF_ERROR(checkpoint::restore_module(workload_.module(), state.model));
  GNN_RETURN_IF_ERROR(
      checkpoint::restore_optimizer(workload_.module(), runner_.optimizer(), state.optimizer)
  );
  if (embedding::Embeddings* const embeddings = workload_.embeddings()) {
    GNN_RETURN_IF_ERROR(embeddings->restore(state.embeddings));
  } else if (!state.embeddings.empty()) {
    return fail(
        ErrorKind::Configuration,
        "the checkpoint does not fit this job: the job has no " + state.embeddings[0].name
    );
  }
  state_ = from_checkpoint(state, runner_.steps_per_epoch(), context_.communicator->rank());
  return {};
}

Status TrainingLoop::resume() {
  if (!options_.checkpoint) return {};
  GNN_ASSIGN_OR_RETURN(
      checkpoints_,
      TrainingCheckpoints::open(
          {.checkpoint = *options_.checkpoint, .incarnation = options_.incarnation},
          context_.communicator,
          context_.progress,
          context_.files
      )
  );
  GNN_ASSIGN_OR_RETURN(const Resume found, checkpoints_->resume());
  for (const std::string& notice : found.notices) log_warning(notice);
  if (!found.state) {
    open_record(found);
    return {};
  }
  // Who names a checkpoint wants its parameters, whatever they were trained on.
  if (found.path != options_.checkpoint->resume) {
    if (Status same = check_same_dataset(*found.state, conditions()); !same)
      return tl::unexpected(with_context(std::move(same).error(), found.path));
  }
  warn_of_differences(*found.state);
  if (Status status = restore(*found.state); !status) {
    return tl::unexpected(with_context(std::move(status).error(), found.path));
  }
  newest_checkpoint_ = found.path;
  saved_step_ = state_.global_step;
  open_record(found);
  GNN_RETURN_IF_ERROR(recount_validations(found.path == options_.checkpoint->resume));
  context_.progress.on_message(
      "Resumed from " + found.path + ": epoch " + std::to_string(state_.position.epoch) +
      ", step " + std::to_string(state_.position.step)
  );
  return {};
}

void TrainingLoop::open_record(const Resume& found) {
  if (context_.communicator->rank() != 0) return;
  report::RunFacts facts = options_.facts;
  facts.evaluation = metric_name_of(training().evaluation);
  facts.epochs = training().epochs;
  facts.batch_size = training().batch_size;
  recorder_.emplace(
      *checkpoints_,
      context_.now,
      std::move(facts),
      report::AttemptRecord{
          .incarnation = options_.incarnation,
          .world_size = context_.communicator->world_size(),
          .device = context_.device.str(),
          .epoch = state_.position.epoch,
          .step = state_.position.step,
      },
      state_.epochs,
      found.path.empty() || found.path != options_.checkpoint->resume
  );
  recorder_->set_data(options_.data);
}

// What this rank has done in the epoch that has ended.
report::RankRecord TrainingLoop::epoch_of_rank() {
  report::RankRecord rank{
      .seconds = epoch_report_.step_seconds,
      .items = epoch_report_.items,
      .sampled_edges = epoch_report_.sampled_edges,
  };
  const std::optional<progress::RemoteData> remote = workload_.remote_data();
  if (!remote) return rank;
  const progress::RowOrigins& rows = remote->training;
  rank.rows = progress::RowOrigins{
      .local = rows.local - rows_before_.local,
      .cache = rows.cache - rows_before_.cache,
      .remote = rows.remote - rows_before_.remote,
  };
  rank.expected_hit_rate = remote->expected_hit_rate;
  rows_before_ = rows;
  return rank;
}

Status TrainingLoop::record_epoch() {
  if (!checkpoints_) return {};
  GNN_ASSIGN_OR_RETURN(
      const std::vector<report::RankRecord> ranks, gather(*context_.communicator, epoch_of_rank())
  );
  if (!recorder_) return {};
  report::EpochRecord epoch = report::epoch_record_of(epoch_report_);
  epoch.learning_rate = learning_rate_;
  recorder_->add_epoch(std::move(epoch), ranks);
  return {};
}

// The test set's, for the record: the same on all ranks.
AnswerRequest TrainingLoop::answers() {
  if (!checkpoints_ || options_.num_classes > kMaxCountedClasses) return {};
  return {
      .classes = options_.num_classes,
      .take =
          [this](const report::AnswerCounts& answers) {
            if (recorder_) recorder_->set_answers(answers);
          },
  };
}

// The validations of the epochs that the checkpoint knows. Those of another training, or whose best
// checkpoint is gone, don't count.
Status TrainingLoop::recount_validations(bool of_another_training) {
  const auto recount = [this] {
    validations_ = no_validations(training());
    for (const progress::EpochReport& epoch : state_.epochs) validations_.add(epoch);
  };
  const auto forget = [this] {
    for (progress::EpochReport& epoch : state_.epochs) epoch.global_step.reset();
  };
  if (of_another_training) forget();
  recount();
  if (!keeps_best() || !validations_.best()) return {};
  const int64_t step = validations_.best()->global_step;
  GNN_ASSIGN_OR_RETURN(best_checkpoint_, checkpoints_->find(step));
  if (best_checkpoint_.empty()) {
    log_warning(
        "the checkpoint of the best epoch is gone; the best is sought among later epochs",
        {{"step", std::to_string(step)}}
    );
    forget();
    recount();
    return {};
  }
  checkpoints_->keep_also(step);
  return {};
}

Status TrainingLoop::check_validation_set() const {
  const char* const field = training().early_stopping ? "spec.training.earlyStopping"
                            : keeps_best()            ? "spec.checkpoint.best"
                                                      : nullptr;
  if (field == nullptr || workload_.has(Part::Validation)) return {};
  return fail(
      ErrorKind::Data,
      std::string(field) + ": expected a validation set to measure the " +
          metric_name_of(training().evaluation) + " on, the data set has none"
  );
}

Result<TrainingResult> TrainingLoop::run() {
  Result<TrainingResult> result = train_all();
  if (!recorder_) return result;
  if (!result) {
    recorder_->end(
        report::AttemptEnd::Failed,
        std::string(to_string(result.error().kind)) + ": " + result.error().message
    );
    return result;
  }
  recorder_->set_outcome(result->report);
  recorder_->end(result->stopped ? report::AttemptEnd::Stopped : report::AttemptEnd::Complete);
  return result;
}

Result<TrainingResult> TrainingLoop::train_all() {
  GNN_RETURN_IF_ERROR(check_validation_set());
  GNN_RETURN_IF_ERROR(open_export());
  GNN_RETURN_IF_ERROR(resume());
  resumed_step_ = state_.global_step;
  while (state_.position.epoch < training().epochs && !ends_early(training(), validations_)) {
    epoch_timer_.lap();
    GNN_RETURN_IF_ERROR(start_epoch());
    GNN_ASSIGN_OR_RETURN(stopped_, run_steps());
    if (stopped_) break;
    GNN_ASSIGN_OR_RETURN(stopped_, finish_epoch());
    if (stopped_) break;
  }
  if (!stopped_ && ends_early(training(), validations_)) say_that_it_ends_early();
  progress::FinalReport report = final_report();
  if (!stopped_) {
    GNN_ASSIGN_OR_RETURN(stopped_, test_best());
  }
  if (!stopped_) {
    GNN_ASSIGN_OR_RETURN(stopped_, predict());
  }
  if (!stopped_) GNN_RETURN_IF_ERROR(export_models());
  report.preempted = stopped_;
  if (test_of_best_) {
    report.metrics["test_" + test_of_best_->metric] = test_of_best_->value;
    report.test_model = "best";
  }
  return TrainingResult{
      .report = std::move(report), .epochs = std::move(state_.epochs), .stopped = stopped_
  };
}

}  // namespace

Result<TrainingResult> train(
    Workload& workload, TrainerContext& context, const TrainerOptions& options
) {
  GNN_ASSIGN_OR_RETURN(
      comm::DistributedDataParallel replicas,
      comm::DistributedDataParallel::create(
          comm::named_parameters_of(workload.module()),
          comm::named_buffers_of(workload.module()),
          context.communicator,
          ddp_options(options.training)
      )
  );
  GNN_ASSIGN_OR_RETURN(
      StepRunner runner,
      StepRunner::create(
          workload,
          {.training = options.training,
           .communicator = context.communicator,
           .device = context.device,
           .stop = context.stop,
           .progress = context.progress},
          std::move(replicas)
      )
  );
  return TrainingLoop(workload, context, options, std::move(runner)).run();
}

}  // namespace gnn::training
