#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/file_ops.h"
#include "worker/comm/communicator.h"
#include "worker/progress/progress_sink.h"
#include "worker/rendezvous/rendezvous.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::training {

struct TrainingCheckpointOptions {
  api::Checkpoint checkpoint{};
  rendezvous::Incarnation incarnation{};
};

/// What a run starts from.
struct Resume {
  std::optional<checkpoint::CheckpointState> state;  ///< absent: the beginning
  std::string path;                                  ///< of the checkpoint, as rank 0 sees it
  std::vector<std::string> notices;  ///< for the log of rank 0: checkpoints that were passed over
};

/// A job's checkpoints as all its ranks see them: rank 0 reads and writes the folder, the others
/// receive what it read, so that no other node needs the volume. Every call is collective, and what
/// fails on rank 0 fails on all.
class TrainingCheckpoints {
 public:
  /// Rank 0 begins the incarnation in the folder, through `files`. `progress` is told of each write
  /// there; it outlives this.
  /// Errors: those of CheckpointStore::begin(); PeerLost on the other ranks.
  [[nodiscard]] static Result<TrainingCheckpoints> open(
      const TrainingCheckpointOptions& options,
      std::shared_ptr<comm::Communicator> communicator,
      progress::ProgressSink& progress,
      std::shared_ptr<checkpoint::FileOps> files
  );

  /// The checkpoint that spec.checkpoint.resume asks for. Never and a path count only until some
  /// incarnation of the job has begun: later ones resume from the job's own newest checkpoint.
  [[nodiscard]] Result<Resume> resume();

  /// The path of the checkpoint of this global step, as rank 0 sees it; empty without one.
  [[nodiscard]] Result<std::string> find(int64_t global_step);
  /// The checkpoint at a path that find() or save() gave.
  /// Errors: Data naming it if it is damaged or gone.
  [[nodiscard]] Result<checkpoint::CheckpointState> load(const std::string& path);
  /// The next save() and those after it keep the checkpoint of this step, whatever its age.
  void keep_also(std::optional<int64_t> global_step);

  /// A small file beside the checkpoints, read and replaced on rank 0 (see CheckpointStore); not
  /// collective.
  [[nodiscard]] Result<std::optional<std::string>> read_file(
      const std::string& name, int64_t max_bytes
  ) const {
    return store_->read_file(name, max_bytes);
  }
  [[nodiscard]] Status replace_file(const std::string& name, std::string_view content) {
    return store_->replace_file(name, content);
  }

  /// Rank 0 writes what `capture` returns. Gives the checkpoint's path to every rank.
  [[nodiscard]] Result<std::string> save(
      const std::function<Result<checkpoint::CheckpointState>()>& capture
  );

 private:
  TrainingCheckpoints(
      const TrainingCheckpointOptions& options,
      std::shared_ptr<comm::Communicator> communicator,
      progress::ProgressSink& progress,
      std::shared_ptr<checkpoint::FileOps> files
  );

  [[nodiscard]] bool writes() const { return communicator_->rank() == 0; }
  // What rank 0 read from the folder.
  struct Found {
    Resume resume;
    checkpoint::CheckpointBytes bytes;  // of resume.state
  };

  Result<Found> read();
  // Gives all ranks what rank 0 has read.
  Status share(Found& found);
  Result<checkpoint::SavedCheckpoint> write(
      const std::function<Result<checkpoint::CheckpointState>()>& capture
  );
  Result<std::string> write_and_report(
      const std::function<Result<checkpoint::CheckpointState>()>& capture
  );

  TrainingCheckpointOptions options_;
  std::shared_ptr<comm::Communicator> communicator_;
  progress::ProgressSink* progress_;
  std::shared_ptr<checkpoint::FileOps> files_;
  std::optional<checkpoint::CheckpointStore> store_;  // on rank 0
};

}  // namespace gnn::training
