#include "worker/comm/uneven_inputs.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace gnn::comm {

ShadowPlan::ShadowPlan(std::vector<int64_t> batches_per_rank)
    : batches_per_rank_(std::move(batches_per_rank)) {
  TORCH_CHECK(
      !batches_per_rank_.empty(), "batches_per_rank must have an entry per rank, found none"
  );
  for (const int64_t batches : batches_per_rank_) {
    TORCH_CHECK(batches >= 0, "batch counts must be >= 0, found ", batches);
    total_steps_ = std::max(total_steps_, batches);
  }
}

int64_t ShadowPlan::active_ranks(int64_t step) const {
  return std::count_if(batches_per_rank_.begin(), batches_per_rank_.end(), [step](int64_t batches) {
    return step < batches;
  });
}

int64_t ShadowPlan::buffer_source(int64_t step) const {
  const auto found =
      std::find_if(batches_per_rank_.begin(), batches_per_rank_.end(), [step](int64_t batches) {
        return step < batches;
      });
  TORCH_CHECK(found != batches_per_rank_.end(), "no rank has a batch in step ", step);
  return found - batches_per_rank_.begin();
}

Join::Join(std::shared_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {}

Result<JoinedStep> Join::handshake(bool has_batch) {
  auto flags = at::zeros({communicator_->world_size()}, at::kInt);
  if (has_batch) flags[communicator_->rank()] = 1;
  GNN_RETURN_IF_ERROR(communicator_->all_reduce(flags));
  const int* begin = flags.const_data_ptr<int>();
  const int* end = begin + flags.numel();
  JoinedStep step;
  step.active_ranks = std::count(begin, end, 1);
  if (step.active_ranks > 0) step.buffer_source = std::find(begin, end, 1) - begin;
  return step;
}

}  // namespace gnn::comm
