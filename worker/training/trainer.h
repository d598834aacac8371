#pragma once

#include "common/api/gnn_job.h"
#include "common/clock.h"
#include "common/result.h"
#include "common/stop_token.h"
#include "worker/checkpoint/file_ops.h"
#include "worker/comm/communicator.h"
#include "worker/progress/progress_sink.h"
#include "worker/rendezvous/rendezvous.h"
#include "worker/report/run_record.h"
#include "worker/training/model_export.h"
#include "worker/training/run_recorder.h"
#include "worker/training/workload.h"

#include <c10/core/Device.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gnn::training {

struct TrainerOptions {
  api::Training training{};
  std::optional<api::Checkpoint> checkpoint{};
  std::optional<ModelExportOptions> model_export{};  ///< what is written once training has ended
  rendezvous::Incarnation incarnation{};  ///< a checkpoint folder refuses writers of older ones
  /// Of all that the numbers depend on; resuming with another one is logged.
  std::string config_hash{};
  /// Of the data set; resuming with another one is refused.
  std::string dataset_digest{};
  /// Measures the test set with every validation, not only at the end: for protocols that choose
  /// an epoch.
  bool test_with_validation = false;
  /// Of a classification; 0: answers are not counted by class.
  int64_t num_classes = 0;
  /// For the record that is kept beside checkpoints.
  report::RunFacts facts{};
  std::optional<report::DataRecord> data{};  ///< on rank 0, if it knows the data set
};

struct TrainerContext {
  std::shared_ptr<comm::Communicator> communicator;
  c10::Device device{c10::kCPU};
  progress::ProgressSink& progress;
  const StopToken& stop;
  /// Where checkpoints and exported models are read and written, on rank 0.
  std::shared_ptr<checkpoint::FileOps> files = std::make_shared<checkpoint::PosixFileOps>();
  Now now = [] { return SystemClock().now(); };  ///< of the run's record alone
};

/// The end of a training that did not fail.
struct TrainingResult {
  progress::FinalReport report;
  /// Every epoch's, in order.
  std::vector<progress::EpochReport> epochs;
  bool stopped = false;  ///< on request, at a step that all ranks agreed on
};

/// Trains `workload` from the newest valid checkpoint, or from the start, with evaluations and
/// checkpoints between epochs, and exports the model at the end. With checkpoints rank 0 keeps a record
/// of the run beside them. Collective.
/// The result is a function of (options, workload, world size): dropout is keyed by (seed, epoch,
/// batch, rank).
/// Errors: those of the workload; Configuration for a checkpoint of another task or model, or if
/// the loss is not finite; PeerLost; Io.
[[nodiscard]] Result<TrainingResult> train(
    Workload& workload, TrainerContext& context, const TrainerOptions& options
);

}  // namespace gnn::training
