#include "worker/training/step_planner.h"

#include <algorithm>
#include <string>
#include <utility>

namespace gnn::training {

StepPlanner::StepPlanner(
    Workload& workload,
    std::shared_ptr<comm::Communicator> communicator,
    const api::Training& training
)
    : workload_(workload),
      joins_(training.uneven_inputs == api::UnevenInputs::Join),
      batches_per_step_(training.gradient_accumulation),
      rank_(communicator->rank()),
      my_batches_(workload.batches_per_rank()[static_cast<size_t>(rank_)]),
      shadows_(workload.batches_per_rank()),
      join_(std::move(communicator)) {}

int64_t StepPlanner::steps_per_epoch() const {
  return (shadows_.total_steps() + batches_per_step_ - 1) / batches_per_step_;
}

Status StepPlanner::start_epoch(const Position& position) {
  fetched_.reset();
  out_of_batches_ = false;
  return workload_.start_epoch(
      position.epoch, std::min(position.step * batches_per_step_, my_batches_)
  );
}

Result<std::optional<StepPlan>> StepPlanner::plan(const Position& position) {
  if (joins_) return plan_joined_step(position.step);
  if (position.step == steps_per_epoch()) return std::optional<StepPlan>();
  const int64_t first = position.step * batches_per_step_;
  return StepPlan{
      .first_batch = std::min(first, my_batches_),
      .end_batch = std::min(first + batches_per_step_, my_batches_),
      .buffer_source = buffer_source(position),
  };
}

int64_t StepPlanner::buffer_source(const Position& position) const {
  const bool over = position.step >= steps_per_epoch();
  return shadows_.buffer_source(over ? 0 : position.step * batches_per_step_);
}

Result<std::optional<StepPlan>> StepPlanner::plan_joined_step(int64_t step) {
  if (!out_of_batches_) {
    GNN_ASSIGN_OR_RETURN(fetched_, workload_.next_batch());
    out_of_batches_ = !fetched_.has_value();
  }
  GNN_ASSIGN_OR_RETURN(const comm::JoinedStep joined, join_.handshake(!out_of_batches_));
  if (joined.active_ranks == 0) return std::optional<StepPlan>();
  return StepPlan{
      .first_batch = step,
      .end_batch = step + (out_of_batches_ ? 0 : 1),
      .buffer_source = joined.buffer_source,
  };
}

Result<BatchSize> StepPlanner::fetch(const Position& position) {
  std::optional<BatchSize> batch = std::exchange(fetched_, std::nullopt);
  if (!batch) {
    GNN_ASSIGN_OR_RETURN(batch, workload_.next_batch());
  }
  if (batch) return *batch;
  return fail(
      ErrorKind::Internal,
      "epoch " + std::to_string(position.epoch) + ", step " + std::to_string(position.step) +
          ": expected " + std::to_string(my_batches_) + " batches on rank " +
          std::to_string(rank_) + ", found fewer"
  );
}

}  // namespace gnn::training
