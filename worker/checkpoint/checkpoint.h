#pragma once

#include "common/result.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/checkpoint/checkpoint_state.h"
#include "worker/checkpoint/file_ops.h"
#include "worker/rendezvous/rendezvous.h"

#include <compare>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::checkpoint {

/// An incarnation as a folder counts it, across all jobs that used the folder one after another.
/// Later ones are greater.
struct FolderAttempt {
  int64_t attempt = 0;
  int64_t round = 0;

  friend auto operator<=>(const FolderAttempt&, const FolderAttempt&) = default;
};

struct CheckpointOptions {
  /// Of the job; made when missing. Its parent must exist.
  std::filesystem::path directory;
  /// Who writes. Jobs may follow each other in one folder.
  rendezvous::Incarnation incarnation{};
  /// How many of the newest save() keeps. With 1 the one before stays too: see save().
  int64_t keep = 3;
};

struct LoadedCheckpoint {
  std::filesystem::path path;  ///< the manifest: what spec.checkpoint.resume can name
  CheckpointState state;
  CheckpointBytes bytes;  ///< what `state` was decoded from
};

/// A checkpoint that was passed over, and why, for the log.
struct RejectedCheckpoint {
  std::filesystem::path path;
  std::string reason;
};

struct NewestCheckpoint {
  /// Absent: none is valid, so training starts from the beginning.
  std::optional<LoadedCheckpoint> checkpoint;
  std::vector<RejectedCheckpoint> rejected;  ///< newer than `checkpoint`, newest first
};

struct SavedCheckpoint {
  std::filesystem::path path;  ///< the manifest
  int64_t bytes = 0;           ///< manifest and data
};

/// Which checkpoints of earlier jobs a job builds on. It always resumes from its own.
enum class Inherit {
  Newest,   ///< those that are there
  Nothing,  ///< none: training starts anew, and what earlier jobs left is never loaded again
};

/// The checkpoints of one job in one directory (a local path or a mounted volume). Only rank 0 has
/// one.
///
///   <directory>/FENCE-a000002-r0000                        attempt 2 has begun: which job it is of
///                                                          and which checkpoints it inherits
///   <directory>/a000001-r0000/step-000000000123.manifest   JSON with checksums; valid once it is
///                                                          there
///   <directory>/a000001-r0000/data-<checksum>.bin          the tensors' bytes
///   <directory>/<name>                                     what replace_file() was given
///
/// A job that finds checkpoints of other jobs continues their attempt numbers, so that all of its
/// incarnations are later than all of theirs. Those jobs may not come back.
///
/// Durability: whenever and wherever a writer stops, a reader finds the last checkpoint whose save
/// returned or the one being saved, never a mixture. Data and manifest are each written under a
/// temporary name, synced, renamed, and their directory synced; the manifest comes last.
///
/// Fencing: a writer reads the fences again before it renames a manifest, and stops if one is above
/// its own incarnation. A manifest that an older writer still manages to rename after that is in no
/// fence's list and is ignored.
///
/// Threads: one.
class CheckpointStore {
 public:
  /// Begins the incarnation: claims the folder, lists the checkpoints to inherit and writes the
  /// FENCE file. Call it once, on rank 0, before any load or save. `inherit` counts only until some
  /// incarnation of this job has begun.
  /// Errors: Conflict if a later incarnation or a later job has begun; Io.
  [[nodiscard]] static Result<CheckpointStore> begin(
      CheckpointOptions options, Inherit inherit, std::shared_ptr<FileOps> files
  );

  /// The newest valid checkpoint of this or an inherited incarnation, every checksum verified. One
  /// with values that are not finite is passed over: training can't go on from it.
  [[nodiscard]] Result<NewestCheckpoint> load_newest();

  /// Writes one checkpoint durably, in place of one of the same global step, then removes those
  /// beyond `keep`, but never the two newest: a fence written in between may not list this one, and
  /// then the next attempt loads the one before. If it fails, older checkpoints are unharmed.
  /// Errors: Conflict once a later incarnation has begun (this writer must stop); Io, e.g. a full
  /// disk.
  [[nodiscard]] Result<SavedCheckpoint> save(const CheckpointState& state);

  /// From now on save() keeps the checkpoint of this global step as well, whatever its age; nothing:
  /// none.
  void keep_also(std::optional<int64_t> global_step) { kept_step_ = global_step; }
  /// The newest checkpoint of this global step, of this or an inherited incarnation; nothing without
  /// one. It need not be valid.
  [[nodiscard]] Result<std::optional<std::filesystem::path>> find(int64_t global_step) const;

  /// A small file that the folder has beside its checkpoints, of all incarnations together; nothing
  /// without one.
  /// Errors: Data if it is larger than `max_bytes`; Io.
  [[nodiscard]] Result<std::optional<std::string>> read_file(
      const std::string& name, int64_t max_bytes
  ) const;
  /// Replaces it durably.
  /// Errors: Conflict once a later incarnation has begun; Io.
  [[nodiscard]] Status replace_file(const std::string& name, std::string_view content);

  [[nodiscard]] const CheckpointOptions& options() const { return options_; }

 private:
  CheckpointStore(CheckpointOptions options, std::shared_ptr<FileOps> files);

  /// Reads from the fences how this job's attempts are numbered here, and whether it has begun.
  [[nodiscard]] Status claim_folder();
  [[nodiscard]] Status begin_incarnation(Inherit inherit);
  [[nodiscard]] Result<std::vector<std::filesystem::path>> find_inherited() const;
  [[nodiscard]] Result<std::vector<std::filesystem::path>> manifests() const;
  [[nodiscard]] Status check_fence() const;
  [[nodiscard]] Status write_file(const std::filesystem::path& path, std::string_view content);
  [[nodiscard]] Status replace(const std::filesystem::path& path, std::string_view content);
  [[nodiscard]] Status write_fence(bool complete);
  [[nodiscard]] Result<SavedCheckpoint> write_checkpoint(const CheckpointState& state);
  // Manifests that save() does not remove, of `all`, newest first.
  [[nodiscard]] std::vector<std::filesystem::path> kept_of(
      const std::vector<std::filesystem::path>& all
  ) const;
  void prune();
  void sweep(
      const std::filesystem::path& directory, const std::vector<std::filesystem::path>& kept
  );

  CheckpointOptions options_;
  std::shared_ptr<FileOps> files_;
  std::vector<std::string> jobs_;  // uids of those that used the folder, in order; this one is last
  int64_t first_attempt_ = 0;      // the folder's number of this job's attempt 0
  bool job_has_begun_ = false;     // an incarnation of this job was here before
  FolderAttempt own_attempt_;
  std::filesystem::path own_directory_;
  std::optional<int64_t> kept_step_;
  std::vector<std::filesystem::path> inherited_;  // manifests of older incarnations, newest first
};

/// One checkpoint by the path of its manifest, every checksum verified; for `resume: <path>`.
/// Errors: Data saying what is damaged, that the format is another one, or which tensor is not
/// finite; NotFound; Io.
[[nodiscard]] Result<LoadedCheckpoint> load_checkpoint(
    const std::filesystem::path& manifest, FileOps& files
);

/// The newest valid checkpoint in a folder that another job writes to, or has written to, as a job
/// that goes on from it would find it. Writes nothing.
/// Errors: NotFound without the folder; Io.
[[nodiscard]] Result<NewestCheckpoint> load_newest_of(
    const std::filesystem::path& directory, FileOps& files
);

}  // namespace gnn::checkpoint
