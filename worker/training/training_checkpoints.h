#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/distributed/comm/communicator.h"
#include "worker/distributed/comm/rendezvous.h"
#include "worker/training/checkpoint.h"
#include "worker/training/progress_sink.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gnn::training {

struct TrainingCheckpointOptions {
  api::Checkpoint checkpoint{};
  comm::Incarnation incarnation{};
};

/// What a run starts from, and what the log should know of it.
struct Resume {
  std::optional<CheckpointState> state;  ///< absent: the beginning
  std::string path;                      ///< of the checkpoint, as rank 0 sees it
  std::vector<std::string> notices;      ///< damaged checkpoints that were passed over; on rank 0
};

/// A job's checkpoints as its ranks see them together: rank 0 reads and writes the folder, the
/// others get what it read, so that no other node needs the volume. Every call is collective, and
/// what fails on rank 0 fails on all.
class TrainingCheckpoints {
 public:
  /// `progress` hears of each write, on rank 0; it outlives this.
  [[nodiscard]] static Result<TrainingCheckpoints> open(
      const TrainingCheckpointOptions& options,
      std::shared_ptr<comm::Communicator> communicator,
      ProgressSink& progress
  );

  /// What spec.checkpoint.resume names. Never and a path hold until an incarnation of the job has
  /// begun: from then on it goes on from its own newest checkpoint.
  [[nodiscard]] Result<Resume> resume();

  /// Rank 0 asks `capture` for the state and writes it; returns the checkpoint's path on every
  /// rank.
  [[nodiscard]] Result<std::string> save(const std::function<Result<CheckpointState>()>& capture);

 private:
  TrainingCheckpoints(
      const TrainingCheckpointOptions& options,
      std::shared_ptr<comm::Communicator> communicator,
      ProgressSink& progress
  );

  [[nodiscard]] bool writes() const { return communicator_->rank() == 0; }
  Result<Resume> read();
  Result<SavedCheckpoint> write(const std::function<Result<CheckpointState>()>& capture);
  Result<std::string> write_and_report(const std::function<Result<CheckpointState>()>& capture);

  TrainingCheckpointOptions options_;
  std::shared_ptr<comm::Communicator> communicator_;
  ProgressSink* progress_;
  std::shared_ptr<FileOps> files_;
  std::optional<CheckpointStore> store_;  // on rank 0
};

}  // namespace gnn::training
