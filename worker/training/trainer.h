#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/distributed/comm/communicator.h"
#include "worker/distributed/comm/rendezvous.h"
#include "worker/training/progress_sink.h"
#include "worker/training/stop_token.h"
#include "worker/training/workload.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gnn::training {

/// Where a training stands: `step` optimizer steps of `epoch` are done. Between an epoch's last
/// step and its evaluation this is {epoch, steps of an epoch}.
struct Position {
  int64_t epoch = 0;
  int64_t step = 0;

  friend bool operator==(const Position&, const Position&) = default;
};

struct TrainerOptions {
  api::Training training{};
  std::optional<api::Checkpoint> checkpoint{};
  comm::Incarnation incarnation{};  ///< a checkpoint folder refuses writers of older ones
  std::string config_hash{
  };  ///< of all that the numbers depend on; a resume with another one is announced
  /// Measures the test set whenever the validation set is, not only at the end: for protocols that
  /// choose an epoch.
  bool test_with_validation = false;
};

struct TrainerContext {
  std::shared_ptr<comm::Communicator> communicator;
  c10::Device device{c10::kCPU};
  ProgressSink& progress;
  const StopToken& stop;
};

/// How a training ended that did not fail.
struct TrainingOutcome {
  FinalReport report;
  /// Every epoch's, in order.
  std::vector<EpochReport> epochs;
  bool stopped = false;  ///< on request, at a step that all ranks agreed on
};

/// Trains `workload` from the newest valid checkpoint, or from the start: forward, loss, backward
/// with the gradient reduction, optimizer step; evaluations and checkpoints between. Collective.
/// The result is a function of (options, workload, world size): dropout draws are keyed by (seed,
/// epoch, batch, rank). Loss: cross entropy, the mean over a batch. Ranks without a batch shadow
/// the step. Errors: those of the workload; Configuration for a checkpoint of another task or
/// model; PeerLost; Internal for a loss that is not finite.
[[nodiscard]] Result<TrainingOutcome> train(
    Workload& workload, TrainerContext& context, const TrainerOptions& options
);

}  // namespace gnn::training
