#include "worker/training/step_runner.h"

#include "worker/embedding/embeddings.h"
#include "worker/training/dropout.h"
#include "worker/training/meters.h"
#include "worker/training/optimizer.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <cmath>
#include <utility>

namespace gnn::training {

StepRunner::StepRunner(
    Workload& workload, StepContext context, comm::DistributedDataParallel replicas
)
    : workload_(workload),
      context_(std::move(context)),
      replicas_(std::move(replicas)),
      optimizer_(make_optimizer(context_.training.optimizer, workload.module().parameters())),
      planner_(workload, context_.communicator, context_.training) {}

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
  optimizer_->step();
  GNN_RETURN_IF_ERROR(update_embeddings(*agreed));
  report.seconds.optimizer = timer.lap();
  return agreed;
}

Status StepRunner::update_embeddings(const comm::StepResult& agreed) {
  embedding::Embeddings* const embeddings = workload_.embeddings();
  if (embeddings == nullptr) return {};
  if (agreed.total_batch_size > 0 && !std::isfinite(agreed.mean_loss)) {
    embeddings->discard();  // on all ranks: the loss is what to report
    return {};
  }
  return embeddings->apply(
      *context_.communicator,
      {.factor = replicas_.factor_of_sums(agreed),
       .learning_rate = context_.training.optimizer.learning_rate.value()}
  );
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

  // Weighted by size, the batches of a step are summed by their items; otherwise a step is the mean
  // of its batches.
  const auto group = static_cast<double>(step.plan.end_batch - step.plan.first_batch);
  const bool whole = context_.training.weigh_by_batch_size || group == 1;
  const at::Tensor share = whole ? loss : loss / group;
  const comm::StepContribution mine{
      .batch_size = static_cast<double>(size.items),
      .stop = context_.stop.requested(),
      .reported_loss = loss,
  };
  step.scores.push_back(score_of(scores, loss, size.items));
  std::optional<comm::StepResult> agreed;
  if (reduces) {
    // The one wait of the host for the device in a step: all that was queued before has ended.
    GNN_ASSIGN_OR_RETURN(agreed, replicas_.backward(share, mine));
    for (const BatchScore& score : step.scores) {
      const auto* const values = score.values.const_data_ptr<double>();
      step.sums.add(values[0], score.items, static_cast<int64_t>(values[1]));
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
    const Scores& scores, const at::Tensor& loss, int64_t items
) const {
  const at::NoGradGuard no_grad;
  const at::Tensor correct = workload_.count_correct(scores);
  at::Tensor values = at::stack({loss.detach().to(at::kDouble), correct.to(at::kDouble)});
  if (!values.is_cpu()) {
    const at::Tensor host = at::empty({2}, at::TensorOptions(at::kDouble).pinned_memory(true));
    host.copy_(values, /*non_blocking=*/true);
    values = host;
  }
  return {.values = std::move(values), .items = items};
}

}  // namespace gnn::training
