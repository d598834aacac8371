#pragma once

#include "common/result.h"
#include "worker/distributed/comm/rendezvous.h"
#include "worker/training/file_ops.h"

#include <ATen/core/Tensor.h>

#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::training {

/// A tensor under the name that finds it again.
struct CheckpointTensor {
  std::string name;
  at::Tensor tensor;  ///< On the CPU when loaded; any device, dtype of a fixed size and strides
                      ///< when saved.
};

/// All that a resumed run needs to go on as if it had never stopped. No generators' states: what is
/// drawn follows from the seed and the position.
struct CheckpointState {
  int64_t epoch = 0;         ///< Epochs finished.
  int64_t batch_cursor = 0;  ///< Steps done in the epoch after those.
  int64_t global_step =
      0;  ///< Optimizer steps done since the start of training; names the checkpoint.
  int64_t world_size = 1;
  std::string
      config_hash;  ///< Of what the numbers depend on: model, data, sampling, optimizer, seed.
  std::string
      bucket_layout_hash;  ///< Of the gradient buckets (DistributedDataParallel::layout_hash).
  /// Anything else that explains a difference in bits: thread counts, instruction set.
  std::map<std::string, std::string> notes;
  std::vector<CheckpointTensor> model;      ///< Parameters and buffers.
  std::vector<CheckpointTensor> optimizer;  ///< State tensors and step counts.
};

/// An incarnation as a folder counts, over all jobs that follow each other in it. Later ones are
/// greater.
struct FolderTurn {
  int64_t attempt = 0;
  int64_t round = 0;

  friend auto operator<=>(const FolderTurn&, const FolderTurn&) = default;
};

struct CheckpointOptions {
  std::filesystem::path directory;  ///< Of the job; made when missing (its parent must be there).
  comm::Incarnation incarnation{};  ///< Who writes. Jobs may follow each other in one folder.
  int64_t keep =
      3;  ///< Newest ones that save leaves; with 1 the last but one stays too (see save).
};

struct LoadedCheckpoint {
  std::filesystem::path path;  ///< The manifest: what spec.checkpoint.resume can name.
  CheckpointState state;
};

/// A checkpoint that was passed over, and why, for the log.
struct RejectedCheckpoint {
  std::filesystem::path path;
  std::string reason;
};

struct NewestCheckpoint {
  std::optional<LoadedCheckpoint>
      checkpoint;  ///< Absent: none is valid, training starts from the beginning.
  std::vector<RejectedCheckpoint> rejected;  ///< Newer than it, newest first.
};

struct SavedCheckpoint {
  std::filesystem::path path;  ///< The manifest.
  int64_t bytes = 0;           ///< Manifest and data.
};

/// Which checkpoints of earlier jobs a job builds on. Its own it always goes on from.
enum class Inherit {
  Newest,   ///< Those that are there.
  Nothing,  ///< None: training starts anew and what earlier jobs left is never loaded again.
};

/// The checkpoints of one job in one directory (a local path or a mounted volume), written by rank
/// 0 alone.
///
///   <directory>/FENCE-a000002-r0000                         attempt 2 has begun; names the job,
///                                                           lists what it inherits
///   <directory>/a000001-r0000/step-000000000123.manifest    JSON with checksums; valid once it is
///                                                           there
///   <directory>/a000001-r0000/data-<checksum>.bin           the tensors' bytes
///
/// A job that finds the folder used by others counts its attempts on from theirs, so that all of
/// its incarnations are later than all of theirs; those jobs may not come back.
///
/// Whatever stops a writer, and wherever, a reader finds the last checkpoint whose save returned,
/// or the one being saved, never a mixture: data and manifest are each written under a temporary
/// name, synced, renamed and their directory synced, the manifest last. Fencing: a writer re-reads
/// the fences before each manifest's rename and stops if one is above its own incarnation. A
/// manifest that an older writer still manages to rename after that is in no fence's list and is
/// ignored. Threading: one thread.
class CheckpointStore {
 public:
  /// Begins the incarnation: lists the checkpoints to inherit and writes the FENCE file. Call once,
  /// before any load or save of this incarnation, on rank 0. `inherit` counts until an incarnation
  /// of this job has begun, whichever that is. Errors: Conflict if a later incarnation or a later
  /// job has begun; Io.
  [[nodiscard]] static Result<CheckpointStore> begin(
      CheckpointOptions options, Inherit inherit, std::shared_ptr<FileOps> files
  );

  /// The newest valid checkpoint of this or an inherited incarnation, every checksum verified.
  [[nodiscard]] Result<NewestCheckpoint> load_newest();

  /// Writes one checkpoint durably and then removes those beyond `keep`, though never the two
  /// newest: a fence that came meanwhile may have left this one out, and then the one before it is
  /// what the next attempt loads. Where it fails the older ones are as they were. Errors: Conflict
  /// once a later incarnation has begun (this writer must stop); Io, e.g. a full disk.
  [[nodiscard]] Result<SavedCheckpoint> save(const CheckpointState& state);

  [[nodiscard]] const CheckpointOptions& options() const { return options_; }

 private:
  CheckpointStore(CheckpointOptions options, std::shared_ptr<FileOps> files);

  /// What the folder says of this job: how it counts its attempts, and whether it has begun.
  [[nodiscard]] Status take_place();
  [[nodiscard]] Status begin_incarnation(Inherit inherit);
  [[nodiscard]] Result<std::vector<std::filesystem::path>> find_inherited() const;
  [[nodiscard]] Result<std::vector<std::filesystem::path>> manifests() const;
  [[nodiscard]] Status check_fence() const;
  [[nodiscard]] Status write_file(const std::filesystem::path& path, std::string_view content);
  [[nodiscard]] Status replace(const std::filesystem::path& path, std::string_view content);
  [[nodiscard]] Status write_fence(bool complete);
  [[nodiscard]] Result<SavedCheckpoint> write_checkpoint(const CheckpointState& state);
  void prune();
  void sweep(
      const std::filesystem::path& directory, const std::vector<std::filesystem::path>& kept
  );

  CheckpointOptions options_;
  std::shared_ptr<FileOps> files_;
  std::vector<std::string> jobs_;  // that have used the folder, in order; the last is this one
  int64_t first_attempt_ = 0;      // the folder's number of this job's attempt 0
  bool job_has_begun_ = false;     // an incarnation of this job was here before
  FolderTurn turn_;                // of this incarnation
  std::filesystem::path own_directory_;
  std::vector<std::filesystem::path> inherited_;  // manifests of older incarnations, newest first
};

/// One checkpoint by the path of its manifest, every checksum verified; for `resume: <path>`.
/// Errors: Data saying what is damaged; NotFound; Io.
[[nodiscard]] Result<LoadedCheckpoint> load_checkpoint(
    const std::filesystem::path& manifest, FileOps& files
);

}  // namespace gnn::training
