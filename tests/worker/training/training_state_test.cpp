#include "worker/training/training_state.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gnn::training {
namespace {

constexpr int64_t kSteps = 10;

RunConditions conditions() {
  return {
      .world_size = 2,
      .steps_per_epoch = kSteps,
      .config_hash = "c0ffee",
      .bucket_layout_hash = "b0b",
      .environment = {{"threads", "2"}, {"cpu", "AVX2"}},
  };
}

// In the middle of epoch 3.
checkpoint::CheckpointState checkpoint_at(int64_t step) {
  TrainingState state;
  state.position = {.epoch = 3, .step = step};
  state.global_step = 30 + step;
  state.epochs.resize(3);
  return to_checkpoint(state, {.loss = 2.5, .items = 40, .correct = 7}, conditions());
}

TEST(TrainingState, ComesBackFromACheckpoint) {
  const TrainingState state = from_checkpoint(checkpoint_at(4), kSteps, 0);
  EXPECT_EQ(state.position, (Position{.epoch = 3, .step = 4}));
  EXPECT_EQ(state.global_step, 34);
  EXPECT_EQ(state.epochs.size(), 3U);
  EXPECT_EQ(state.sums.loss, 2.5);
  EXPECT_EQ(state.sums.items, 40);
  EXPECT_EQ(state.sums.correct, 7);
}

TEST(TrainingState, LeavesTheSumsOfAllRanksToRank0) {
  EXPECT_EQ(from_checkpoint(checkpoint_at(4), kSteps, 1).sums.items, 0);
}

TEST(TrainingState, StartsOverAnEpochThatHasOtherSteps) {
  const TrainingState state = from_checkpoint(checkpoint_at(4), 7, 0);
  EXPECT_EQ(state.position, (Position{.epoch = 3, .step = 0}));
  EXPECT_EQ(state.sums.items, 0) << "its batches are counted again";
  EXPECT_EQ(state.global_step, 34);
}

TEST(TrainingState, KeepsAFinishedEpochFinished) {
  const TrainingState state = from_checkpoint(checkpoint_at(kSteps), 7, 0);
  EXPECT_EQ(state.position, (Position{.epoch = 3, .step = 7}));
  EXPECT_EQ(state.sums.items, 40);
}

TEST(Differences, AreNoneUnderTheSameConditions) {
  EXPECT_TRUE(differences(checkpoint_at(4), conditions()).empty());
}

TEST(Differences, NameEachConditionWithBothValues) {
  RunConditions now = conditions();
  now.world_size = 4;
  now.steps_per_epoch = 5;
  now.config_hash = "decaff";
  now.bucket_layout_hash = "alice";
  now.environment = {{"threads", "8"}, {"cpu", "AVX2"}, {"device", "cuda"}};
  std::vector<std::string> found;
  for (const Difference& difference : differences(checkpoint_at(4), now))
    found.push_back(difference.what + ": " + difference.checkpoint + " -> " + difference.now);
  EXPECT_EQ(
      found,
      (std::vector<std::string>{
          "worldSize: 2 -> 4",
          "config: c0ffee -> decaff",
          "bucketLayout: b0b -> alice",
          "stepsPerEpoch: 10 -> 5",
          "device:  -> cuda",
          "threads: 2 -> 8",
      })
  );
}

RunConditions conditions_with_data(const std::string& digest) {
  RunConditions of_data = conditions();
  of_data.environment[kDatasetCondition] = digest;
  return of_data;
}

TEST(CheckSameDataset, RefusesOtherDataWithBothDigests) {
  const auto state = to_checkpoint({}, {}, conditions_with_data("xxh64:1"));
  EXPECT_TRUE(check_same_dataset(state, conditions_with_data("xxh64:1")));
  const Status other = check_same_dataset(state, conditions_with_data("xxh64:2"));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, ErrorKind::Configuration);
  EXPECT_NE(other.error().message.find("xxh64:1, found xxh64:2"), std::string::npos)
      << other.error().message;
}

TEST(CheckSameDataset, AcceptsACheckpointThatDoesNotSay) {
  EXPECT_TRUE(check_same_dataset(checkpoint_at(4), conditions_with_data("xxh64:1")));
}

}  // namespace
}  // namespace gnn::training
