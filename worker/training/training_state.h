#pragma once

#include "common/result.h"
#include "worker/checkpoint/checkpoint_state.h"
#include "worker/progress/epoch_sums.h"
#include "worker/progress/progress_sink.h"

#include <cstdint>
#include <map>
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

/// What a checkpoint keeps of a training beside its tensors.
struct TrainingState {
  Position position;
  int64_t global_step = 0;
  /// Of this rank since it resumed; before that of all ranks, which rank 0 holds.
  progress::EpochSums sums;
  std::vector<progress::EpochReport> epochs;  ///< the finished ones, in order
};

/// What the bits of a run depend on: a checkpoint made under other conditions may resume to other
/// results.
struct RunConditions {
  int64_t world_size = 1;
  int64_t steps_per_epoch = 0;
  std::string config_hash;
  std::string bucket_layout_hash;
  /// Thread counts, instruction set, device, data set.
  std::map<std::string, std::string> environment;
};

/// Key of RunConditions::environment: the digest of the data set.
inline constexpr const char* kDatasetCondition = "dataset";

/// One condition that differs between a checkpoint and a run.
struct Difference {
  std::string what;
  std::string checkpoint;
  std::string now;
};

/// The checkpoint of `state`, without tensors. `sums` are those of all ranks.
[[nodiscard]] checkpoint::CheckpointState to_checkpoint(
    const TrainingState& state, const progress::EpochSums& sums, const RunConditions& conditions
);

/// The state that `rank` resumes with. If an epoch has other steps now (another world or batch
/// size), a position inside it means nothing: an unfinished epoch starts over.
[[nodiscard]] TrainingState from_checkpoint(
    const checkpoint::CheckpointState& state, int64_t steps_per_epoch, int64_t rank
);

/// Which conditions of the checkpoint are not those of the run.
[[nodiscard]] std::vector<Difference> differences(
    const checkpoint::CheckpointState& state, const RunConditions& now
);

/// Refuses to go on with other data than those that the checkpoint was trained on. One that does
/// not say counts as trained on the same.
/// Errors: Configuration with both digests and what to do.
[[nodiscard]] Status check_same_dataset(
    const checkpoint::CheckpointState& state, const RunConditions& now
);

}  // namespace gnn::training
