#pragma once

#include "common/result.h"
#include "worker/comm/communicator.h"

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

/// How the gradients of all ranks become one.
enum class GradientAverage {
  WorldSize,  ///< sum / world size, even when ranks are out of batches (as DDP does under Join)
  BatchSize,  ///< weighted by batch size: the gradient of the union of the ranks' batches
};

struct DdpOptions {
  /// Buckets are laid out once, in reverse order of registration, and never rebuilt: sums over
  /// three or more ranks depend on the layout.
  int64_t bucket_bytes = int64_t{25} * 1024 * 1024;
  int64_t first_bucket_bytes = int64_t{1024} * 1024;
  /// Sends the buffers of one rank to all before each step.
  bool broadcast_buffers = true;
  GradientAverage average = GradientAverage::WorldSize;
};

/// What a rank brings to a step besides its loss.
struct StepContribution {
  /// What the loss is the mean over: its items, or the sum of their weights. Weighs gradients under
  /// BatchSize, and the mean loss.
  double batch_size = 1;
  bool stop = false;  ///< this rank asks all to stop after this step (SIGTERM)
  /// Scalar for StepResult::mean_loss, where it differs from the loss that backward starts from.
  at::Tensor reported_loss{};
};

/// What the ranks agreed on in a step: the same on every rank.
struct StepResult {
  bool stop = false;         ///< some rank asked to stop: all stop after this step
  bool abandoned = false;    ///< some rank gave the step up: all forget its gradients
  int64_t active_ranks = 0;  ///< ranks that had a batch
  double total_batch_size = 0;
  double mean_loss = 0;  ///< over the items of all ranks, in the gradients' precision; NaN if none
};

/// Keeps the replicas of a model equal: c10d::Reducer sums the gradients over the ranks while
/// backward still runs. StepResult travels inside the first gradient bucket and costs no message of
/// its own.
/// On every rank an optimizer step is: start_step, forward, backward (shadow_step on a rank without
/// a batch), optimizer step. Gradients are then equal on all ranks, and so are parameters and
/// optimizer state.
/// Every parameter must take part in every loss.
/// Errors: PeerLost as in Communicator.
class DistributedDataParallel {
 public:
  /// Checks that all ranks have the same parameters and layout, then sends rank 0's parameters and
  /// buffers to all. `parameters` are in order of registration, all on one device. Collective.
  /// Errors: Configuration naming the first tensor that differs, the same on all ranks.
  [[nodiscard]] static Result<DistributedDataParallel> create(
      std::vector<NamedTensor> parameters,
      std::vector<NamedTensor> buffers,
      std::shared_ptr<Communicator> communicator,
      const DdpOptions& options = {}
  );
  ~DistributedDataParallel();
  DistributedDataParallel(DistributedDataParallel&&) noexcept;
  DistributedDataParallel& operator=(DistributedDataParallel&&) noexcept;

  /// Sends the buffers of `buffer_source`, a rank that has a batch. Call it before forward.
  [[nodiscard]] Status start_step(int64_t buffer_source = 0);
  /// Runs backward from a scalar loss and averages the gradients over the ranks.
  [[nodiscard]] Result<StepResult> backward(
      const at::Tensor& loss, const StepContribution& mine = {}
  );
  /// Takes part in a step without a batch: contributes zeros and receives the average. Comes after
  /// start_step().
  [[nodiscard]] Result<StepResult> shadow_step(bool stop = false);
  /// Ends a step that this rank gives up in order to stop, whatever it has accumulated. Comes after
  /// start_step(); the result is `abandoned` on all ranks.
  [[nodiscard]] Result<StepResult> abandon_step();
  /// Gradient accumulation (PyTorch's no_sync): adds to the local gradients only; the next
  /// backward() reduces them all. Under BatchSize they are weighted here already.
  [[nodiscard]] Status accumulate(const at::Tensor& loss, const StepContribution& mine = {});

  /// Seconds that this rank's last backward() waited after its own gradients were ready, by the
  /// clock of their device: the reduction time not overlapped with backward.
  [[nodiscard]] double exposed_reduce_seconds() const;

  /// What makes a sum of gradients over the ranks the average that `result`'s step took: for those
  /// that do not go through the reducer, such as rows of an embedding. Gradients that accumulate()
  /// and backward() leave in leaves that are no parameters are weighted as the parameters' are.
  [[nodiscard]] double factor_of_sums(const StepResult& result) const;

  /// Makes every gradient undefined. Use it instead of Optimizer::zero_grad.
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
