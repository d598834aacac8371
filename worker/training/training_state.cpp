#include "worker/training/training_state.h"

namespace gnn::training {

checkpoint::CheckpointState to_checkpoint(
    const TrainingState& state, const progress::EpochSums& sums, const RunConditions& conditions
) {
  return {
      .epoch = state.position.epoch,
      .step = state.position.step,
      .steps_per_epoch = conditions.steps_per_epoch,
      .global_step = state.global_step,
      .world_size = conditions.world_size,
      .config_hash = conditions.config_hash,
      .bucket_layout_hash = conditions.bucket_layout_hash,
      .environment = conditions.environment,
      .history = {.sums = sums, .epochs = state.epochs},
      .model = {},
      .optimizer = {},
      .embeddings = {},
  };
}

TrainingState from_checkpoint(
    const checkpoint::CheckpointState& state, int64_t steps_per_epoch, int64_t rank
) {
  TrainingState resumed{
      .position = {.epoch = state.epoch, .step = state.step},
      .global_step = state.global_step,
      .sums = {},
      .epochs = state.history.epochs,
  };
  const bool over = state.step == state.steps_per_epoch;
  const bool other_steps = state.steps_per_epoch != steps_per_epoch;
  if (other_steps) resumed.position.step = over ? steps_per_epoch : 0;
  if (rank == 0 && (over || !other_steps)) resumed.sums = state.history.sums;
  return resumed;
}

std::vector<Difference> differences(
    const checkpoint::CheckpointState& state, const RunConditions& now
) {
  std::vector<Difference> found;
  const auto compare =
      [&](const std::string& what, const std::string& then, const std::string& current) {
        if (then != current) found.push_back({.what = what, .checkpoint = then, .now = current});
      };
  compare("worldSize", std::to_string(state.world_size), std::to_string(now.world_size));
  compare("config", state.config_hash, now.config_hash);
  compare("bucketLayout", state.bucket_layout_hash, now.bucket_layout_hash);
  compare(
      "stepsPerEpoch", std::to_string(state.steps_per_epoch), std::to_string(now.steps_per_epoch)
  );
  for (const auto& [name, current] : now.environment) {
    const auto then = state.environment.find(name);
    compare(name, then == state.environment.end() ? "" : then->second, current);
  }
  return found;
}

Status check_same_dataset(const checkpoint::CheckpointState& state, const RunConditions& now) {
  const auto then = state.environment.find(kDatasetCondition);
  const auto current = now.environment.find(kDatasetCondition);
  if (then == state.environment.end() || current == now.environment.end() ||
      then->second == current->second)
    return {};
  return fail(
      ErrorKind::Configuration,
      "the checkpoint was trained on other data: expected spec.dataset with the digest " +
          then->second + ", found " + current->second +
          "; restore the data, or start a new job with spec.checkpoint.resume: Never, or with "
          "resume set to this checkpoint's path to train it further on the new data"
  );
}

}  // namespace gnn::training
