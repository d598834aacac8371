#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "common/stop_token.h"
#include "worker/progress/progress_sink.h"
#include "worker/progress/remote_data.h"
#include "worker/training/answers.h"
#include "worker/training/scores.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace gnn::embedding {
class Embeddings;
}
namespace torch::nn {
class Module;
}

namespace gnn::training {

/// How much work a batch was.
struct BatchSize {
  int64_t items = 0;  ///< what was scored: seeds or graphs
  int64_t sampled_edges = 0;
  int64_t input_nodes = 0;
};

using api::Part;

/// What a rank does while it evaluates `part`.
[[nodiscard]] progress::Phase phase_of(Part part);

/// What an evaluation is given.
struct EvaluationContext {
  const StopToken& stop;             ///< asks for an early end
  progress::ProgressSink& progress;  ///< gets a mark for each batch: an evaluation may be long
  /// The most batches of this rank in a part other than Test; only evaluation by batches reads it.
  std::optional<int64_t> max_batches = {};
  AnswerRequest answers = {};  ///< about the test set; a classification heeds it
};

/// The measure over all ranks; nothing if the ranks agreed to stop before the end.
using Evaluated = std::optional<progress::Measure>;
/// The same for each of several parts, in their order.
using EvaluatedParts = std::optional<std::vector<progress::Measure>>;

/// What a task gives the trainer: batches, a model and a way to measure it. The trainer does the
/// rest: steps, gradient reduction, checkpoints, reports.
/// Threads: one.
class Workload {
 public:
  virtual ~Workload() = default;

  [[nodiscard]] virtual torch::nn::Module& module() = 0;
  /// Tables of rows that are trained beside the module; null without any. forward() reads them, the
  /// trainer ends their steps.
  [[nodiscard]] virtual embedding::Embeddings* embeddings() { return nullptr; }

  /// How many batches each rank has in an epoch: the same in each epoch, and known to all ranks.
  [[nodiscard]] virtual const std::vector<int64_t>& batches_per_rank() const = 0;

  /// Prepares the batches of `epoch` from `first_batch` on.
  [[nodiscard]] virtual Status start_epoch(int64_t epoch, int64_t first_batch) = 0;
  /// Waits for this rank's next batch; nothing after the epoch's last.
  [[nodiscard]] virtual Result<std::optional<BatchSize>> next_batch() = 0;
  /// Runs the model on the batch of the last next_batch(). May throw what torch throws.
  [[nodiscard]] virtual Scores forward() = 0;
  /// The loss of scores that forward() gave: a scalar, the mean over the batch's items, by their
  /// weights.
  [[nodiscard]] virtual at::Tensor loss(const Scores& scores) const = 0;
  /// What these scores weigh in the loss: the sum of their items' weights; nothing where each item
  /// counts 1.
  [[nodiscard]] virtual std::optional<double> loss_weight(const Scores& /*scores*/) const {
    return std::nullopt;
  }
  /// How many of these scores are right: an int64 scalar on their device, which the host need not wait
  /// for.
  [[nodiscard]] virtual at::Tensor count_correct(const Scores& scores) const = 0;

  /// What loading the batches has cost so far; all 0 without a loader.
  [[nodiscard]] virtual progress::DataPath data_path() const { return {}; }
  /// What the workload keeps in memory; the trainer fills in `model`.
  [[nodiscard]] virtual progress::MemoryByOwner memory() const { return {}; }

  /// What this rank has read from other nodes so far; nothing where the whole data set is here.
  [[nodiscard]] virtual std::optional<progress::RemoteData> remote_data() const {
    return std::nullopt;
  }

  /// Whether `part` has any item; the same on every rank.
  [[nodiscard]] virtual bool has(Part part) const = 0;
  /// Measures the model on all ranks together; the caller has put it into evaluation mode. All
  /// ranks may end early once a stop is requested on one of them. Collective.
  [[nodiscard]] virtual Result<Evaluated> evaluate(Part part, const EvaluationContext& context) = 0;
  /// evaluate() of each part, with the phase that it is; overridden where several parts cost hardly
  /// more than one. Collective.
  [[nodiscard]] virtual Result<EvaluatedParts> evaluate_parts(
      const std::vector<Part>& parts, const EvaluationContext& context
  );

  /// Whether the job asks for what predict() writes; the same on every rank.
  [[nodiscard]] virtual bool predicts() const { return false; }
  /// Writes what the trained model says of nodes, which is in evaluation mode. Returns whether it went
  /// to the end: false if the ranks agreed to stop. Collective.
  [[nodiscard]] virtual Result<bool> predict(const EvaluationContext& /*context*/) { return true; }
};

}  // namespace gnn::training
