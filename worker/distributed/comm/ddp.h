#pragma once

#include "common/result.h"
#include "worker/distributed/comm/communicator.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::comm {

/// A parameter or buffer with its name in the module.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// How gradients of the ranks become one.
enum class GradientAverage {
  WorldSize,    ///< Sum / world size, also while some ranks are out of batches (DDP's default under
                ///< Join).
  ActiveRanks,  ///< Sum / number of ranks that had a batch in this step.
  BatchSize,    ///< Weighted by batch size: the gradient of the union of the ranks' batches.
};

struct DdpOptions {
  /// Buckets are laid out once, in reverse order of registration, and never rebuilt: sums over
  /// three or more ranks depend on the layout.
  int64_t bucket_bytes = int64_t{25} * 1024 * 1024;
  int64_t first_bucket_bytes = int64_t{1024} * 1024;
  /// Allows parameters that a step's loss doesn't depend on.
  bool find_unused_parameters = false;
  /// Sends the buffers of one rank to all before each step.
  bool broadcast_buffers = true;
  GradientAverage average = GradientAverage::WorldSize;
};

/// What a rank brings to a step besides its loss.
struct StepContribution {
  double batch_size =
      1;              ///< Number of items behind the loss, which is their mean. Used by BatchSize.
  bool stop = false;  ///< This rank wants everybody to stop after this step (SIGTERM).
  /// Scalar for StepResult::mean_loss where it is not the loss that backward starts from.
  at::Tensor reported_loss{};
};

/// What the ranks agreed on in a step: the same on every rank.
struct StepResult {
  bool stop = false;         ///< Some rank wants to stop; all stop after this step.
  int64_t active_ranks = 0;  ///< Ranks that had a batch.
  double total_batch_size = 0;
  double mean_loss = 0;  ///< Over the items of all ranks, in the gradients' precision; NaN: none.
};

/// Keeps the replicas of a model equal by summing gradients over ranks while backward still runs
/// (c10d::Reducer). The agreement on StepResult travels inside the first gradient bucket, so it
/// costs no message of its own. Each optimizer step is, on every rank: start_step, forward,
/// backward (or shadow_step on a rank without a batch), optimizer step. Gradients are then equal on
/// all ranks, and so stay parameters and optimizer state. Errors: PeerLost as in Communicator.
class DistributedDataParallel {
 public:
  /// Checks that all ranks have the same parameters and layout, then sends rank 0's parameters and
  /// buffers to all. Collective. `parameters` in order of registration, all on one device. Errors:
  /// Configuration, the same on all ranks, naming the first tensor that differs.
  [[nodiscard]] static Result<DistributedDataParallel> create(
      std::vector<NamedTensor> parameters,
      std::vector<NamedTensor> buffers,
      std::shared_ptr<Communicator> communicator,
      const DdpOptions& options = {}
  );
  ~DistributedDataParallel();
  DistributedDataParallel(DistributedDataParallel&&) noexcept;
  DistributedDataParallel& operator=(DistributedDataParallel&&) noexcept;

  /// Before forward: sends the buffers of `buffer_source`, which must be a rank that has a batch.
  [[nodiscard]] Status start_step(int64_t buffer_source = 0);
  /// Runs backward from a scalar loss, adds the gradients over ranks and averages them.
  [[nodiscard]] Result<StepResult> backward(
      const at::Tensor& loss, const StepContribution& mine = {}
  );
  /// Takes part in a step without a batch: contributes zeros and receives the average. Call
  /// start_step first.
  [[nodiscard]] Result<StepResult> shadow_step(bool stop = false);
  /// Gradient accumulation (no_sync): adds to the local gradients only; the next backward() sums
  /// them all. With BatchSize the gradients are weighted here already.
  [[nodiscard]] Status accumulate(const at::Tensor& loss, const StepContribution& mine = {});

  /// Seconds that this rank waited in its last backward() after its own gradients were ready: what
  /// of the reduction did not hide behind backward.
  [[nodiscard]] double exposed_reduce_seconds() const;

  /// Sets every gradient to undefined. Use it instead of Optimizer::zero_grad.
  void zero_grad();

  /// Hash of names, shapes, dtypes and bucket layout; a checkpoint keeps it.
  [[nodiscard]] uint64_t layout_hash() const;

 private:
  struct Impl;
  explicit DistributedDataParallel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The parameters and buffers of a torch::nn::Module.
template <class Module>
[[nodiscard]] std::vector<NamedTensor> named_parameters_of(const Module& module) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : module.named_parameters()) tensors.push_back({item.key(), item.value()});
  return tensors;
}
template <class Module>
[[nodiscard]] std::vector<NamedTensor> named_buffers_of(const Module& module) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : module.named_buffers()) tensors.push_back({item.key(), item.value()});
  return tensors;
}

}  // namespace gnn::comm
