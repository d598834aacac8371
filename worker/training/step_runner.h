#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "common/stop_token.h"
#include "worker/comm/communicator.h"
#include "worker/comm/ddp.h"
#include "worker/embedding/adam_rows.h"
#include "worker/progress/epoch_sums.h"
#include "worker/progress/progress_sink.h"
#include "worker/training/learning_rate.h"
#include "worker/training/step_planner.h"
#include "worker/training/training_state.h"
#include "worker/training/workload.h"

#include <c10/core/Device.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gnn::training {

/// What a rank's optimizer steps run with. All of it outlives the runner.
struct StepContext {
  const api::Training& training;
  std::shared_ptr<comm::Communicator> communicator;
  c10::Device device{c10::kCPU};
  const StopToken& stop;
  progress::ProgressSink& progress;  ///< gets a mark for each batch
};

/// Runs optimizer steps: forward, loss, backward with the gradient reduction, update. A rank
/// without a batch shadows the step.
/// Threads: one.
class StepRunner {
 public:
  /// Errors: those of LearningRate::create().
  [[nodiscard]] static Result<StepRunner> create(
      Workload& workload, const StepContext& context, comm::DistributedDataParallel replicas
  );

  [[nodiscard]] int64_t steps_per_epoch() const { return planner_.steps_per_epoch(); }
  [[nodiscard]] const torch::optim::Optimizer& optimizer() const { return *optimizer_; }
  [[nodiscard]] torch::optim::Optimizer& optimizer() { return *optimizer_; }
  [[nodiscard]] uint64_t layout_hash() const { return replicas_.layout_hash(); }

  [[nodiscard]] Status start_epoch(const Position& position) {
    return planner_.start_epoch(position);
  }
  /// Gives all ranks the buffers that the step at `position` starts from: what evaluations measure
  /// and checkpoints keep is then one model. Collective.
  [[nodiscard]] Status share_buffers(const Position& position) {
    return replicas_.start_step(planner_.buffer_source(position));
  }
  /// Runs the step at `position`; nothing after the epoch's last. Adds this rank's batches to
  /// `sums`, and their sizes and seconds to `report`. A step of several batches is abandoned when a
  /// stop is requested in it; then buffers and `sums` are as they were before. Collective.
  [[nodiscard]] Result<std::optional<comm::StepResult>> run(
      const Position& position, progress::EpochSums& sums, progress::StepReport& report
  );

 private:
  // What a batch scored. On a GPU the values are on their way to pinned memory: they are there once
  // the step has waited for the device.
  struct BatchScore {
    at::Tensor values;  // double [2] on the host: the mean loss and the number of right scores
    int64_t items = 0;
    double weight = 0;  // in the loss
  };

  // Where the batches of one step add up.
  struct Step {
    const Position& position;
    const StepPlan& plan;
    progress::EpochSums& sums;
    progress::StepReport& report;
    std::vector<BatchScore>& scores;  // of its batches so far
  };

  StepRunner(
      Workload& workload, const StepContext& context, comm::DistributedDataParallel replicas
  );

  // Clips the gradients, and takes the optimizer's step.
  Status update(const comm::StepResult& agreed, const Step& step);
  // Scales the parameters' gradients down to the norm that spec.training.optimizer allows. `rows`
  // count by `factor` times their values. Gives what they are to be multiplied by, too.
  double clip_gradients(
      const std::vector<embedding::RowGradients>& rows, double factor, progress::StepReport& report
  );
  Result<comm::StepResult> shadow(const Step& step);
  Result<comm::StepResult> abandon(const Step& step);
  // Copies of the module's buffers, and the way back.
  [[nodiscard]] std::vector<at::Tensor> copy_buffers() const;
  void restore_buffers(const std::vector<at::Tensor>& copies);
  // Forward and backward of one batch. Only the last batch of a step reduces the gradients and has
  // a result.
  Result<std::optional<comm::StepResult>> run_batch(int64_t batch, const Step& step);
  [[nodiscard]] BatchScore score_of(
      const Scores& scores, const at::Tensor& loss, int64_t items, double weight
  ) const;

  Workload& workload_;
  StepContext context_;
  comm::DistributedDataParallel replicas_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  StepPlanner planner_;
  std::optional<LearningRate> learning_rate_;  // set by create()
};

}  // namespace gnn::training
