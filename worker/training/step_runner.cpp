#include "worker/training/step_runner.h"

#include "worker/embedding/embeddings.h"
#include "worker/training/dropout.h"
#include "worker/training/gradient_norm.h"
#include "worker/training/meters.h"
#include "worker/training/optimizer.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <cmath>
#include <utility>

namespace gnn::training {

StepRunner::StepRunner(
    Workload& workload, const StepContext& context, comm::DistributedDataParallel replicas
)
    : workload_(workload),
      context_(context),
      replicas_(std::move(replicas)),
      optimizer_(make_optimizer(context_.training.optimizer, workload.module().parameters())),
      planner_(workload, context_.communicator, context_.training) {}

Result<StepRunner> StepRunner::create(
    Workload& workload, const StepContext& context, comm::DistributedDataParallel replicas
) {
  StepRunner made(workload, context, std::move(replicas));
  GNN_ASSIGN_OR_RETURN(
      made.learning_rate_, LearningRate::create(context.training, made.steps_per_epoch())
  );
  return made;
}

Result<std::optional<comm::StepResult>> StepRunner::run(
    const Position& position, progress::EpochSums& sums, progress::StepReport& report
) {
  GNN_ASSIGN_OR_RETURN(const std::optional<StepPlan> plan, planner_.plan(position));
  if (!plan) return std::optional<comm::StepResult>();
  std::vector<BatchScore> scores;
  const Step step{
      .position = position, .plan = *plan, .sums = sums, .report = report, .scores = scores
  };
  replicas_.zero_grad();
  const progress::EpochSums sums_before = sums;
  const std::vector<at::Tensor> buffers_before = copy_buffers();
  std::optional<comm::StepResult> agreed;
  if (plan->first_batch == plan->end_batch) {
    GNN_ASSIGN_OR_RETURN(agreed, shadow(step));
  }
  for (int64_t batch = plan->first_batch; batch < plan->end_batch; ++batch) {
    // Many batches can outlast the time that a pod is given to leave.
    if (batch > plan->first_batch && context_.stop.requested()) {
      GNN_ASSIGN_OR_RETURN(agreed, abandon(step));
      break;
    }
    GNN_ASSIGN_OR_RETURN(agreed, run_batch(batch, step));
    context_.progress.on_mark();
  }
  if (agreed->abandoned) {
    sums = sums_before;
    restore_buffers(buffers_before);
    if (embedding::Embeddings* const embeddings = workload_.embeddings()) embeddings->discard();
    return agreed;
  }
  LapTimer timer;
  GNN_RETURN_IF_ERROR(update(*agreed, step));
  report.seconds.optimizer = timer.lap();
  return agreed;
}

Status StepRunner::update(const comm::StepResult& agreed, const Step& step) {
  const double learning_rate = learning_rate_->at(step.position);
  step.report.learning_rate = learning_rate;
  set_learning_rate(*optimizer_, learning_rate);

  embedding::Embeddings* embeddings = workload_.embeddings();
  if (embeddings != nullptr && agreed.total_batch_size > 0 && !std::isfinite(agreed.mean_loss)) {
    embeddings->discard();  // on all ranks: the loss is what to report
    embeddings = nullptr;
  }
  std::vector<embedding::RowGradients> rows;
  if (embeddings != nullptr) {
    GNN_ASSIGN_OR_RETURN(rows, embeddings->sum_gradients(*context_.communicator));
  }
  const double factor = replicas_.factor_of_sums(agreed);
  const double clip = clip_gradients(rows, factor, step.report);
  optimizer_->step();
  if (embeddings == nullptr) return {};
  return embeddings->apply(
      std::move(rows), {.factor = factor * clip, .learning_rate = learning_rate}
  );
}

double StepRunner::clip_gradients(
    const std::vector<embedding::RowGradients>& rows, double factor, progress::StepReport& report
) {
  const std::optional<api::Decimal>& most = context_.training.optimizer.max_gradient_norm;
  if (!most) return 1;
  const std::vector<at::Tensor> parameters = workload_.module().parameters();
  std::vector<at::Tensor> of_parameters;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) of_parameters.push_back(parameter.grad());
  }
  std::vector<at::Tensor> of_rows;
  for (const embedding::RowGradients& table : rows) of_rows.push_back(table.gradients);
  // On a GPU the host waits here: the factor of rows, which lie on the CPU, depends on it.
  const double norm =
      std::sqrt(sum_of_squares(of_parameters) + factor * factor * sum_of_squares(of_rows));
  const double clip = clip_factor(norm, most->value());
  if (clip < 1) scale_gradients(parameters, clip);
  report.gradient_norm = norm;
  return clip;
}

Result<comm::StepResult> StepRunner::shadow(const Step& step) {
  LapTimer timer;
  GNN_RETURN_IF_ERROR(replicas_.start_step(step.plan.buffer_source));
  GNN_ASSIGN_OR_RETURN(
      const comm::StepResult agreed, replicas_.shadow_step(context_.stop.requested())
  );
  step.report.seconds.reduce = timer.lap();
  return agreed;
}

Result<comm::StepResult> StepRunner::abandon(const Step& step) {
  GNN_RETURN_IF_ERROR(replicas_.start_step(step.plan.buffer_source));
  return replicas_.abandon_step();
}

std::vector<at::Tensor> StepRunner::copy_buffers() const {
  std::vector<at::Tensor> copies;
  if (context_.training.gradient_accumulation == 1) return copies;  // no step is abandoned
  for (const at::Tensor& buffer : workload_.module().buffers()) copies.push_back(buffer.clone());
  return copies;
}

void StepRunner::restore_buffers(const std::vector<at::Tensor>& copies) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> buffers = workload_.module().buffers();
  for (size_t i = 0; i < copies.size(); ++i) buffers[i].copy_(copies[i]);
}

Result<std::optional<comm::StepResult>> StepRunner::run_batch(int64_t batch, const Step& step) {
  progress::StepReport& report = step.report;
  LapTimer timer;
  GNN_ASSIGN_OR_RETURN(const BatchSize size, planner_.fetch(step.position));
  report.seconds.wait += timer.lap();

  const bool reduces = batch + 1 == step.plan.end_batch;
  if (reduces) GNN_RETURN_IF_ERROR(replicas_.start_step(step.plan.buffer_source));
  report.seconds.reduce += timer.lap();
  seed_dropout(
      context_.device,
      {.seed = context_.training.seed,
       .epoch = step.position.epoch,
       .batch = batch,
       .rank = context_.communicator->rank()}
  );
  const Scores scores = workload_.forward();
  const at::Tensor loss = workload_.loss(scores);
  report.seconds.forward += timer.lap();

  const double weight = workload_.loss_weight(scores).value_or(static_cast<double>(size.items));
  // Weighted by size, the batches of a step are summed by their items; otherwise a step is the mean
  // of its batches.
  const auto group = static_cast<double>(step.plan.end_batch - step.plan.first_batch);
  const bool whole = context_.training.weigh_by_batch_size || group == 1;
  const at::Tensor share = whole ? loss : loss / group;
  const comm::StepContribution mine{
      .batch_size = weight,
      .stop = context_.stop.requested(),
      .reported_loss = loss,
  };
  step.scores.push_back(score_of(scores, loss, size.items, weight));
  std::optional<comm::StepResult> agreed;
  if (reduces) {
    // The one wait of the host for the device in a step: all that was queued before has ended.
    GNN_ASSIGN_OR_RETURN(agreed, replicas_.backward(share, mine));
    for (const BatchScore& score : step.scores) {
      const auto* const values = score.values.const_data_ptr<double>();
      step.sums.add(values[0], score.weight, score.items, static_cast<int64_t>(values[1]));
    }
  } else {
    GNN_RETURN_IF_ERROR(replicas_.accumulate(share, mine));
  }

  report.items += size.items;
  report.sampled_edges += size.sampled_edges;
  report.input_nodes += size.input_nodes;
  const double waited = reduces ? replicas_.exposed_reduce_seconds() : 0;
  report.seconds.reduce += waited;
  report.seconds.backward += timer.lap() - waited;
  return agreed;
}

StepRunner::BatchScore StepRunner::score_of(
    const Scores& scores, const at::Tensor& loss, int64_t items, double weight
) const {
  const at::NoGradGuard no_grad;
  const at::Tensor correct = workload_.count_correct(scores);
  at::Tensor values = at::stack({loss.detach().to(at::kDouble), correct.to(at::kDouble)});
  if (!values.is_cpu()) {
    const at::Tensor host = at::empty({2}, at::TensorOptions(at::kDouble).pinned_memory(true));
    host.copy_(values, /*non_blocking=*/true);
    values = host;
  }
  return {.values = std::move(values), .items = items, .weight = weight};
}

}  // namespace gnn::training
