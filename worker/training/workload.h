#pragma once

#include "common/result.h"
#include "worker/training/progress_sink.h"
#include "worker/training/stop_token.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace torch::nn {
class Module;
}

namespace gnn::training {

/// How much work a batch was.
struct BatchSize {
  int64_t items = 0;  ///< seeds or graphs
  int64_t sampled_edges = 0;
  int64_t input_nodes = 0;
};

/// What the model says of a batch beside the truth.
struct Scores {
  at::Tensor logits;  ///< float [items, classes], on the model's device
  at::Tensor labels;  ///< int64 [items], on the same device
};

/// The parts of a data set that a trained model is measured on.
enum class Part { Validation, Test };

/// How an evaluation is watched from outside.
struct Watch {
  const StopToken& stop;   ///< asks for an early end
  ProgressSink& progress;  ///< hears a mark of each batch: an evaluation may be long
};

/// Correct answers over all ranks, or nothing when the ranks agreed to stop in between.
using Evaluated = std::optional<Accuracy>;

/// What a task gives the trainer: batches, a model and a way to measure it. The trainer does the
/// rest: steps, gradient reduction, checkpoints, reports. One thread.
class Workload {
 public:
  virtual ~Workload() = default;

  [[nodiscard]] virtual torch::nn::Module& module() = 0;

  /// Batches of every rank in an epoch, the same in each epoch and on each rank.
  [[nodiscard]] virtual const std::vector<int64_t>& batches_per_rank() const = 0;

  /// Makes ready for the batches of `epoch` from `first_batch` on.
  [[nodiscard]] virtual Status start_epoch(int64_t epoch, int64_t first_batch) = 0;
  /// Waits for this rank's next batch; nothing when the epoch has no more of them.
  [[nodiscard]] virtual Result<std::optional<BatchSize>> next_batch() = 0;
  /// Runs the model on the batch that next_batch() gave last. May throw what torch throws.
  [[nodiscard]] virtual Scores forward() = 0;

  /// What loading the batches has cost so far. A workload without a loader has nothing to say.
  [[nodiscard]] virtual DataPath data_path() const { return {}; }
  /// What the workload keeps in memory; `model` is the trainer's to fill in.
  [[nodiscard]] virtual MemoryByOwner memory() const { return {}; }

  /// Whether `part` has any item; the same on every rank.
  [[nodiscard]] virtual bool has(Part part) const = 0;
  /// Measures the model, in evaluation mode, on all ranks together. Collective. When some rank's
  /// stop is requested meanwhile, all of them may give up early.
  [[nodiscard]] virtual Result<Evaluated> evaluate(Part part, const Watch& watch) = 0;
};

}  // namespace gnn::training
