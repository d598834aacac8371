#include "worker/training/trainer.h"

#include "common/log.h"
#include "worker/distributed/comm/ddp.h"
#include "worker/distributed/comm/uneven_inputs.h"
#include "worker/training/history.h"
#include "worker/training/meters.h"
#include "worker/training/state_capture.h"
#include "worker/training/training_checkpoints.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <sstream>
#include <utility>
#include <xxhash.h>

namespace gnn::training {
namespace {

/// splitmix64's finaliser over the running hash and one more word.
uint64_t mix(uint64_t hash, uint64_t word) {
  uint64_t z = hash + 0x9e3779b97f4a7c15ULL * (word + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(
    const api::Optimizer& options, const std::vector<at::Tensor>& parameters
) {
  const double rate = options.learning_rate.value();
  const double decay = options.weight_decay.value();
  switch (options.type) {
    case api::OptimizerType::Adam:
      return std::make_unique<torch::optim::Adam>(
          parameters, torch::optim::AdamOptions(rate).weight_decay(decay)
      );
    case api::OptimizerType::SGD:
      return std::make_unique<torch::optim::SGD>(
          parameters,
          torch::optim::SGDOptions(rate).weight_decay(decay).momentum(
              options.momentum ? options.momentum->value() : 0.0
          )
      );
  }
  return nullptr;
}

comm::DdpOptions ddp_options(const api::Training& training) {
  comm::DdpOptions options;
  options.average = training.weigh_by_batch_size ? comm::GradientAverage::BatchSize
                                                 : comm::GradientAverage::WorldSize;
  return options;
}

/// Names the dropout draws of one batch: no two batches of a run share them, and a resumed run
/// draws the same again.
uint64_t dropout_key(int64_t seed, int64_t epoch, int64_t batch, int64_t rank) {
  uint64_t key = mix(0x6472'6f70'6f75'7400ULL, static_cast<uint64_t>(seed));
  for (const int64_t word : {epoch, batch, rank}) key = mix(key, static_cast<uint64_t>(word));
  return key;
}

/// XXH64 over the bytes of the tensors, one after the other.
std::string hash_of(const std::vector<at::Tensor>& tensors) {
  XXH64_hash_t hash = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor bytes = tensor.detach().to(at::kCPU).contiguous();
    hash = XXH64(bytes.const_data_ptr(), bytes.nbytes(), hash);
  }
  std::ostringstream text;
  text << std::hex << std::setw(16) << std::setfill('0') << hash;
  return text.str();
}

/// Sets torch's default generator of the device, which dropout draws from.
void seed_dropout(c10::Device device, uint64_t key) {
  if (device.is_cuda()) {
    torch::manual_seed(key);
  } else {
    at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
    generator.set_current_seed(key);
  }
}

/// Trains and keeps what a training is made of. Each member function that reduces something is
/// collective.
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
        replicas_(std::move(replicas)),
        optimizer_(make_optimizer(options.training.optimizer, workload.module().parameters())),
        shadows_(workload.batches_per_rank()),
        join_(context.communicator),
        rank_(context.communicator->rank()),
        my_batches_(workload.batches_per_rank()[static_cast<size_t>(rank_)]) {}

  Result<TrainingOutcome> run();

 private:
  /// This rank's batches of one optimizer step.
  struct BatchRange {
    int64_t first = 0;
    int64_t last = 0;
  };
  /// An optimizer step as all ranks see it; nothing when the epoch has no more of them.
  struct StepPlan {
    BatchRange mine;
    int64_t buffer_source = 0;
  };

  [[nodiscard]] const api::Training& training() const { return options_.training; }
  [[nodiscard]] int64_t steps_per_epoch() const {
    const int64_t group = training().gradient_accumulation;
    return (shadows_.total_steps() + group - 1) / group;
  }

  Result<std::optional<StepPlan>> plan_step();
  Result<std::optional<StepPlan>> plan_joined_step();
  Status start_epoch();
  /// Whether the ranks agreed to stop.
  Result<bool> run_steps();
  Result<comm::StepResult> run_step(const StepPlan& plan, StepReport& report);
  Result<std::optional<comm::StepResult>> run_batch(
      int64_t batch, const StepPlan& plan, StepReport& report
  );
  Status fetch_batch(StepReport& report);
  Result<bool> finish_epoch();
  Result<bool> stop_in_evaluation();
  Result<Evaluated> evaluate(Part part);
  [[nodiscard]] MemoryByOwner memory();
  [[nodiscard]] FinalReport final_report();
  [[nodiscard]] std::map<std::string, std::string> environment() const;
  [[nodiscard]] Result<CheckpointState> capture(const EpochSums& sums) const;
  Status save_checkpoint();
  void warn_of_differences(const CheckpointState& state) const;
  Status restore(const CheckpointState& state);
  Status resume();

  Workload& workload_;
  TrainerContext& context_;
  const TrainerOptions& options_;
  comm::DistributedDataParallel replicas_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  comm::ShadowPlan shadows_;
  comm::Join join_;
  const int64_t rank_;
  const int64_t my_batches_;

  Position position_;
  EpochSums sums_;  // of this rank; after a resume rank 0 holds what all ranks had summed before it
  std::optional<BatchSize> batch_;  // fetched and not yet used
  bool out_of_batches_ = false;     // Join: this rank's epoch is over
  int64_t global_step_ = 0;
  EpochReport epoch_report_;
  LapTimer epoch_timer_;
  LapTimer run_timer_;
  std::optional<TrainingCheckpoints> checkpoints_;
  std::string newest_checkpoint_;
  int64_t saved_step_ = -1;  // global step of the newest checkpoint
  int64_t model_bytes_ = 0;  // known from the first step on, when all of it is there
  TrainingOutcome outcome_;
};

Result<std::optional<TrainingLoop::StepPlan>> TrainingLoop::plan_step() {
  if (training().uneven_inputs == api::UnevenInputs::Join) return plan_joined_step();
  if (position_.step == steps_per_epoch()) return std::optional<StepPlan>();
  const int64_t group = training().gradient_accumulation;
  const int64_t first = position_.step * group;
  return StepPlan{
      .mine = {.first = std::min(first, my_batches_), .last = std::min(first + group, my_batches_)},
      .buffer_source = shadows_.buffer_source(first),
  };
}

Result<std::optional<TrainingLoop::StepPlan>> TrainingLoop::plan_joined_step() {
  if (!out_of_batches_) {
    GNN_ASSIGN_OR_RETURN(batch_, workload_.next_batch());
    out_of_batches_ = !batch_.has_value();
  }
  GNN_ASSIGN_OR_RETURN(const comm::JoinedStep joined, join_.handshake(!out_of_batches_));
  if (joined.active_ranks == 0) return std::optional<StepPlan>();
  return StepPlan{
      .mine = {.first = position_.step, .last = position_.step + (out_of_batches_ ? 0 : 1)},
      .buffer_source = joined.buffer_source,
  };
}

Status TrainingLoop::start_epoch() {
  epoch_report_ = {};
  epoch_report_.epoch = position_.epoch;
  epoch_report_.epochs = training().epochs;
  batch_.reset();
  out_of_batches_ = false;
  const int64_t first = position_.step * training().gradient_accumulation;
  return workload_.start_epoch(position_.epoch, std::min(first, my_batches_));
}

Result<bool> TrainingLoop::run_steps() {
  context_.progress.on_phase(Phase::Train);
  workload_.module().train();
  while (true) {
    LapTimer timer;
    StepReport report;
    report.epoch = position_.epoch;
    report.epochs = training().epochs;
    report.step = position_.step;
    report.steps_per_epoch = steps_per_epoch();
    report.global_step = global_step_;
    GNN_ASSIGN_OR_RETURN(const std::optional<StepPlan> plan, plan_step());
    if (!plan) return false;
    GNN_ASSIGN_OR_RETURN(const comm::StepResult agreed, run_step(*plan, report));
    ++position_.step;
    ++global_step_;
    report.loss = agreed.mean_loss;
    report.seconds.total = timer.lap();
    epoch_report_.step_seconds += report.seconds;
    epoch_report_.items += report.items;
    epoch_report_.sampled_edges += report.sampled_edges;
    report.data_path = workload_.data_path();
    report.memory = memory();
    context_.progress.on_step(report);

    const int64_t every = options_.checkpoint ? options_.checkpoint->every_steps : 0;
    if (agreed.stop || (every > 0 && global_step_ % every == 0))
      GNN_RETURN_IF_ERROR(save_checkpoint());
    if (agreed.stop) return true;
  }
}

Result<comm::StepResult> TrainingLoop::run_step(const StepPlan& plan, StepReport& report) {
  replicas_.zero_grad();
  comm::StepResult agreed;
  if (plan.mine.first == plan.mine.last) {
    LapTimer timer;
    GNN_RETURN_IF_ERROR(replicas_.start_step(plan.buffer_source));
    GNN_ASSIGN_OR_RETURN(agreed, replicas_.shadow_step(context_.stop.requested()));
    report.seconds.reduce = timer.lap();
  }
  for (int64_t batch = plan.mine.first; batch < plan.mine.last; ++batch) {
    GNN_ASSIGN_OR_RETURN(
        const std::optional<comm::StepResult> result, run_batch(batch, plan, report)
    );
    if (result) agreed = *result;
  }
  LapTimer timer;
  optimizer_->step();
  report.seconds.optimizer = timer.lap();
  return agreed;
}

/// Forward and backward of one batch. The last batch of a step reduces the gradients, and only that
/// gives a result.
Result<std::optional<comm::StepResult>> TrainingLoop::run_batch(
    int64_t batch, const StepPlan& plan, StepReport& report
) {
  LapTimer timer;
  GNN_RETURN_IF_ERROR(fetch_batch(report));
  report.seconds.wait += timer.lap();

  const bool reduces = batch + 1 == plan.mine.last;
  if (reduces) GNN_RETURN_IF_ERROR(replicas_.start_step(plan.buffer_source));
  report.seconds.reduce += timer.lap();
  seed_dropout(context_.device, dropout_key(training().seed, position_.epoch, batch, rank_));
  const Scores scores = workload_.forward();
  const at::Tensor loss = torch::nn::functional::cross_entropy(scores.logits, scores.labels);
  report.seconds.forward += timer.lap();

  // Weighted by size, the batches of a step are summed by their items; otherwise a step is the mean
  // of its batches.
  const auto group = static_cast<double>(plan.mine.last - plan.mine.first);
  const at::Tensor share = training().weigh_by_batch_size || group == 1 ? loss : loss / group;
  const comm::StepContribution mine{
      .batch_size = static_cast<double>(batch_->items),
      .stop = context_.stop.requested(),
      .reported_loss = loss,
  };
  std::optional<comm::StepResult> agreed;
  if (reduces) {
    GNN_ASSIGN_OR_RETURN(agreed, replicas_.backward(share, mine));
  } else {
    GNN_RETURN_IF_ERROR(replicas_.accumulate(share, mine));
  }

  // Reads the loss back to the host, where the device has just been waited for by the reduction or
  // has nothing queued behind this batch: sampling threads prepare the next one meanwhile.
  sums_.add(loss.item<double>(), batch_->items, count_correct(scores));
  report.items += batch_->items;
  report.sampled_edges += batch_->sampled_edges;
  report.input_nodes += batch_->input_nodes;
  batch_.reset();
  const double waited = reduces ? replicas_.exposed_reduce_seconds() : 0;
  report.seconds.reduce += waited;
  report.seconds.backward += timer.lap() - waited;
  return agreed;
}

Status TrainingLoop::fetch_batch(StepReport& report) {
  if (batch_) return {};  // Join fetched it before its handshake
  GNN_ASSIGN_OR_RETURN(batch_, workload_.next_batch());
  if (batch_) return {};
  return fail(
      ErrorKind::Internal,
      "epoch " + std::to_string(report.epoch) + ", step " + std::to_string(report.step) +
          ": rank " + std::to_string(rank_) + " was to have " + std::to_string(my_batches_) +
          " batches and has fewer"
  );
}

Result<Evaluated> TrainingLoop::evaluate(Part part) {
  context_.progress.on_phase(part == Part::Validation ? Phase::Validate : Phase::Test);
  workload_.module().eval();
  const at::NoGradGuard no_grad;
  return workload_.evaluate(part, {.stop = context_.stop, .progress = context_.progress});
}

/// The next run starts with the epoch's evaluation.
Result<bool> TrainingLoop::stop_in_evaluation() {
  GNN_RETURN_IF_ERROR(save_checkpoint());
  return true;
}

/// Checkpoint, evaluation and report after an epoch's last step. Returns whether the ranks agreed
/// to stop.
Result<bool> TrainingLoop::finish_epoch() {
  const bool last = position_.epoch + 1 == training().epochs;
  GNN_ASSIGN_OR_RETURN(const EpochSums sums, reduce(*context_.communicator, sums_));
  if (!std::isfinite(sums.average_loss())) {
    return fail(
        ErrorKind::Configuration,
        "epoch " + std::to_string(position_.epoch) + ": the average loss is " +
            std::to_string(sums.average_loss()) + "; spec.training.optimizer.learningRate (" +
            training().optimizer.learning_rate.text +
            ") may be too high, or there was no training batch"
    );
  }
  const int64_t every = options_.checkpoint ? options_.checkpoint->every_epochs : 0;
  if (last || (every > 0 && (position_.epoch + 1) % every == 0))
    GNN_RETURN_IF_ERROR(save_checkpoint());

  const int64_t measure = training().evaluation.every;
  const bool measures = last || (measure > 0 && (position_.epoch + 1) % measure == 0);
  if (measures && workload_.has(Part::Validation)) {
    GNN_ASSIGN_OR_RETURN(epoch_report_.validation, evaluate(Part::Validation));
    if (!epoch_report_.validation) return stop_in_evaluation();
  }
  if (workload_.has(Part::Test) && (last || (measures && options_.test_with_validation))) {
    GNN_ASSIGN_OR_RETURN(epoch_report_.test, evaluate(Part::Test));
    if (!epoch_report_.test) return stop_in_evaluation();
  }
  epoch_report_.steps = position_.step;
  epoch_report_.average_loss = sums.average_loss();
  epoch_report_.train = sums.accuracy();
  epoch_report_.seconds = epoch_timer_.lap();
  context_.progress.on_epoch(epoch_report_);
  outcome_.epochs.push_back(epoch_report_);
  return false;
}

MemoryByOwner TrainingLoop::memory() {
  if (model_bytes_ == 0) {
    const auto count = [this](const at::Tensor& tensor) {
      if (tensor.defined()) model_bytes_ += static_cast<int64_t>(tensor.nbytes());
    };
    for (const at::Tensor& parameter : workload_.module().parameters()) {
      count(parameter);
      count(parameter.grad());
    }
    for (const at::Tensor& buffer : workload_.module().buffers()) count(buffer);
    model_bytes_ += optimizer_bytes(*optimizer_);
  }
  MemoryByOwner memory = workload_.memory();
  memory.model = model_bytes_;
  return memory;
}

FinalReport TrainingLoop::final_report() {
  FinalReport report;
  report.epochs = position_.epoch;
  report.global_steps = global_step_;
  report.checkpoint = newest_checkpoint_;
  report.parameters_hash = hash_of(workload_.module().parameters());
  report.preempted = outcome_.stopped;
  report.seconds = run_timer_.lap();
  if (outcome_.epochs.empty()) return report;
  const EpochReport& epoch = outcome_.epochs.back();
  report.average_loss = epoch.average_loss;
  report.metrics["train_accuracy"] = epoch.train.value();
  if (epoch.validation) report.metrics["validation_accuracy"] = epoch.validation->value();
  if (epoch.test) report.metrics["test_accuracy"] = epoch.test->value();
  return report;
}

/// What explains a difference in bits.
std::map<std::string, std::string> TrainingLoop::environment() const {
  return {
      {"threads", std::to_string(at::get_num_threads())},
      {"cpu", at::get_cpu_capability()},
      {"device", context_.device.str()},
      {"stepsPerEpoch", std::to_string(steps_per_epoch())},
  };
}

Result<CheckpointState> TrainingLoop::capture(const EpochSums& sums) const {
  CheckpointState state;
  state.epoch = position_.epoch;
  state.batch_cursor = position_.step;
  state.global_step = global_step_;
  state.world_size = context_.communicator->world_size();
  state.config_hash = options_.config_hash;
  state.bucket_layout_hash = std::to_string(replicas_.layout_hash());
  state.notes = environment();
  state.notes["history"] = encode_history({.sums = sums, .epochs = outcome_.epochs});
  state.model = capture_module(workload_.module());
  GNN_ASSIGN_OR_RETURN(state.optimizer, capture_optimizer(*optimizer_));
  return state;
}

Status TrainingLoop::save_checkpoint() {
  if (!checkpoints_ || saved_step_ == global_step_) return {};
  context_.progress.on_phase(Phase::Checkpoint);
  GNN_ASSIGN_OR_RETURN(const EpochSums sums, reduce(*context_.communicator, sums_));
  GNN_ASSIGN_OR_RETURN(newest_checkpoint_, checkpoints_->save([&] { return capture(sums); }));
  saved_step_ = global_step_;
  return {};
}

/// Says on the log what may make this run's bits differ from an undisturbed one's.
void TrainingLoop::warn_of_differences(const CheckpointState& state) const {
  const auto warn = [&](const std::string& what, const std::string& then, const std::string& now) {
    if (then == now || rank_ != 0) return;
    log_warning(
        "the checkpoint was made under other conditions; results may differ in their bits",
        {{"what", what}, {"checkpoint", then}, {"now", now}}
    );
  };
  warn(
      "worldSize",
      std::to_string(state.world_size),
      std::to_string(context_.communicator->world_size())
  );
  warn("config", state.config_hash, options_.config_hash);
  warn("bucketLayout", state.bucket_layout_hash, std::to_string(replicas_.layout_hash()));
  for (const auto& [name, now] : environment()) {
    const auto then = state.notes.find(name);
    warn(name, then == state.notes.end() ? "" : then->second, now);
  }
}

Status TrainingLoop::restore(const CheckpointState& state) {
  GNN_RETURN_IF_ERROR(restore_module(workload_.module(), state.model));
  GNN_RETURN_IF_ERROR(restore_optimizer(*optimizer_, state.optimizer));
  position_ = {.epoch = state.epoch, .step = state.batch_cursor};
  global_step_ = state.global_step;
  const auto history = state.notes.find("history");
  if (history != state.notes.end()) {
    GNN_ASSIGN_OR_RETURN(History known, decode_history(history->second));
    outcome_.epochs = std::move(known.epochs);
    if (rank_ == 0) sums_ = known.sums;
  }
  // With other batches per epoch (another world or batch size) a place inside the epoch means
  // nothing: it starts over, unless it was over.
  const auto steps = state.notes.find("stepsPerEpoch");
  if (steps == state.notes.end() || steps->second == std::to_string(steps_per_epoch())) return {};
  const bool over = std::to_string(position_.step) == steps->second;
  position_.step = over ? steps_per_epoch() : 0;
  if (!over) sums_ = {};
  return {};
}

Status TrainingLoop::resume() {
  if (!options_.checkpoint) return {};
  GNN_ASSIGN_OR_RETURN(
      checkpoints_,
      TrainingCheckpoints::open(
          {.checkpoint = *options_.checkpoint, .incarnation = options_.incarnation},
          context_.communicator,
          context_.progress
      )
  );
  GNN_ASSIGN_OR_RETURN(const Resume found, checkpoints_->resume());
  for (const std::string& notice : found.notices) log_warning(notice);
  if (!found.state) return {};
  warn_of_differences(*found.state);
  if (Status status = restore(*found.state); !status) {
    return tl::unexpected(with_context(std::move(status).error(), found.path));
  }
  newest_checkpoint_ = found.path;
  saved_step_ = global_step_;
  context_.progress.on_message(
      "Resumed from " + found.path + ": epoch " + std::to_string(position_.epoch) + ", step " +
      std::to_string(position_.step)
  );
  return {};
}

Result<TrainingOutcome> TrainingLoop::run() {
  GNN_RETURN_IF_ERROR(resume());
  while (position_.epoch < training().epochs && !outcome_.stopped) {
    epoch_timer_.lap();
    GNN_RETURN_IF_ERROR(start_epoch());
    GNN_ASSIGN_OR_RETURN(outcome_.stopped, run_steps());
    if (outcome_.stopped) break;
    GNN_ASSIGN_OR_RETURN(outcome_.stopped, finish_epoch());
    if (outcome_.stopped) break;
    position_ = {.epoch = position_.epoch + 1, .step = 0};
    sums_ = {};
  }
  outcome_.report = final_report();
  return std::move(outcome_);
}

}  // namespace

Result<TrainingOutcome> train(
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
