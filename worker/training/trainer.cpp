#include "worker/training/trainer.h"

#include "common/log.h"
#include "worker/checkpoint/state_capture.h"
#include "worker/comm/ddp.h"
#include "worker/embedding/embeddings.h"
#include "worker/progress/console_sink.h"
#include "worker/training/meters.h"
#include "worker/training/parameters_hash.h"
#include "worker/training/step_runner.h"
#include "worker/training/training_checkpoints.h"
#include "worker/training/training_state.h"

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
      Workload& workload,
      TrainerContext& context,
      const TrainerOptions& options,
      comm::DistributedDataParallel replicas
  )
      : workload_(workload),
        context_(context),
        options_(options),
        runner_(
            workload,
            {.training = options.training,
             .communicator = context.communicator,
             .device = context.device,
             .stop = context.stop,
             .progress = context.progress},
            std::move(replicas)
        ) {}

  Result<TrainingResult> run();

 private:
  [[nodiscard]] const api::Training& training() const { return options_.training; }

  Status start_epoch();
  // These return whether the ranks agreed to stop.
  Result<bool> run_steps();
  Result<bool> finish_epoch();
  Result<bool> measure_epoch();
  Result<bool> stop_in_evaluation();
  [[nodiscard]] std::vector<Part> due_parts() const;
  Result<EvaluatedParts> evaluate(const std::vector<Part>& parts);
  void report_step(progress::StepReport report, const comm::StepResult& agreed);
  [[nodiscard]] progress::MemoryByOwner memory();
  [[nodiscard]] progress::FinalReport final_report();

  [[nodiscard]] RunConditions conditions() const;
  [[nodiscard]] Result<checkpoint::CheckpointState> capture(const progress::EpochSums& sums) const;
  [[nodiscard]] tl::unexpected<Error> not_finite(const std::string& what) const;
  // Makes the replicas one model that is fit to be measured and kept: all values finite on all ranks
  // (the last update is of no loss yet), and the same buffers.
  Status agree_on_model();
  Status save_checkpoint();
  Status open_export();
  // Writes the module's present parameters, which are those after `epochs` epochs.
  Status write_model(const std::string& name, int64_t epochs);
  Status export_models();
  void warn_of_differences(const checkpoint::CheckpointState& state) const;
  Status restore(const checkpoint::CheckpointState& state);
  Status resume();

  Workload& workload_;
  TrainerContext& context_;
  const TrainerOptions& options_;
  StepRunner runner_;

  TrainingState state_;
  progress::EpochReport epoch_report_;
  LapTimer epoch_timer_;
  LapTimer run_timer_;
  std::optional<TrainingCheckpoints> checkpoints_;
  std::optional<ModelExport> model_export_;
  std::string newest_checkpoint_;
  int64_t saved_step_ = -1;   // global step of the newest checkpoint
  int64_t agreed_step_ = -1;  // global step of the last agree_on_model()
  int64_t first_step_ = 0;    // of this epoch that this run made
  int64_t resumed_step_ = 0;  // global step that this run began at
  progress::Pace steady_steps_;
  int64_t model_bytes_ = 0;  // known from the first step on, when all of it is there
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
      {.stop = context_.stop, .progress = progress, .max_batches = training().evaluation.max_batches
      }
  );
  epoch_report_.evaluation.seconds = timer.lap();
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
  GNN_ASSIGN_OR_RETURN(const bool stopped, measure_epoch());
  if (stopped) return true;
  epoch_report_.steps = state_.position.step;
  epoch_report_.average_loss = sums.average_loss();
  epoch_report_.train = sums.measure();
  epoch_report_.seconds = epoch_timer_.lap();
  context_.progress.on_epoch(epoch_report_);
  state_.epochs.push_back(epoch_report_);
  return false;
}

// What is measured after this epoch.
std::vector<Part> TrainingLoop::due_parts() const {
  const int64_t epochs_done = state_.position.epoch + 1;
  const bool last = epochs_done == training().epochs;
  const bool due = last || is_due(training().evaluation.every, epochs_done);
  const std::vector<Part> asked =
      training().evaluation.parts.value_or(std::vector{Part::Validation});
  const auto is_asked = [&](Part part) {
    if (part == Part::Test && (last || (due && options_.test_with_validation))) return true;
    return due && std::ranges::find(asked, part) != asked.end();
  };
  std::vector<Part> parts;
  for (const Part part : {Part::Train, Part::Validation, Part::Test}) {
    if (is_asked(part) && workload_.has(part)) parts.push_back(part);
  }
  return parts;
}

Result<bool> TrainingLoop::measure_epoch() {
  const std::vector<Part> parts = due_parts();
  if (parts.empty()) return false;
  GNN_ASSIGN_OR_RETURN(const EvaluatedParts evaluated, evaluate(parts));
  if (!evaluated) return stop_in_evaluation();
  for (size_t i = 0; i < parts.size(); ++i) measure_of(epoch_report_, parts[i]) = (*evaluated)[i];
  return false;
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
  if (epoch.test) put("test", *epoch.test);
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
  if (!checkpoints_ || saved_step_ == state_.global_step) return {};
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
  if (!found.state) return {};
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
  context_.progress.on_message(
      "Resumed from " + found.path + ": epoch " + std::to_string(state_.position.epoch) +
      ", step " + std::to_string(state_.position.step)
  );
  return {};
}

Result<TrainingResult> TrainingLoop::run() {
  GNN_RETURN_IF_ERROR(open_export());
  GNN_RETURN_IF_ERROR(resume());
  resumed_step_ = state_.global_step;
  while (state_.position.epoch < training().epochs) {
    epoch_timer_.lap();
    GNN_RETURN_IF_ERROR(start_epoch());
    GNN_ASSIGN_OR_RETURN(stopped_, run_steps());
    if (stopped_) break;
    GNN_ASSIGN_OR_RETURN(stopped_, finish_epoch());
    if (stopped_) break;
    state_.position = {.epoch = state_.position.epoch + 1, .step = 0};
    state_.sums = {};
  }
  if (!stopped_) GNN_RETURN_IF_ERROR(export_models());
  return TrainingResult{
      .report = final_report(), .epochs = std::move(state_.epochs), .stopped = stopped_
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
  return TrainingLoop(workload, context, options, std::move(replicas)).run();
}

}  // namespace gnn::training
