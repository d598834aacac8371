#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/comm/communicator.h"
#include "worker/comm/uneven_inputs.h"
#include "worker/training/training_state.h"
#include "worker/training/workload.h"

#include <cstdint>
#include <memory>
#include <optional>

namespace gnn::training {

/// One optimizer step, as all ranks agree on it.
struct StepPlan {
  int64_t first_batch = 0;    ///< this rank's batches are [first_batch, end_batch)
  int64_t end_batch = 0;      ///< first_batch: this rank has none and shadows the step
  int64_t buffer_source = 0;  ///< the rank that sends its buffers to all
};

/// Deals the batches of an epoch to optimizer steps, and fetches them.
/// Threads: one.
class StepPlanner {
 public:
  /// `workload` outlives the planner.
  StepPlanner(
      Workload& workload,
      std::shared_ptr<comm::Communicator> communicator,
      const api::Training& training
  );

  /// Steps of an epoch; with Join at most as many.
  [[nodiscard]] int64_t steps_per_epoch() const;

  [[nodiscard]] Status start_epoch(const Position& position);
  /// The step at `position`; nothing after the epoch's last. With Join this is collective and
  /// fetches the step's batch.
  [[nodiscard]] Result<std::optional<StepPlan>> plan(const Position& position);
  /// The rank whose buffers the step at `position` starts from, or at an epoch's end the first step
  /// of the next.
  [[nodiscard]] int64_t buffer_source(const Position& position) const;
  /// Waits for the next batch of this rank's current step.
  /// Errors: Internal if the workload has fewer batches than it promised.
  [[nodiscard]] Result<BatchSize> fetch(const Position& position);

 private:
  Result<std::optional<StepPlan>> plan_joined_step(int64_t step);

  Workload& workload_;
  const bool joins_;
  const int64_t batches_per_step_;
  const int64_t rank_;
  const int64_t my_batches_;
  comm::ShadowPlan shadows_;
  comm::Join join_;
  std::optional<BatchSize> fetched_;  // Join fetches before its handshake
  bool out_of_batches_ = false;       // Join: this rank's epoch is over
};

}  // namespace gnn::training
