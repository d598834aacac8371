#include "worker/checkpoint/checkpoint.h"

#include "tests/support/simulated_disk.h"
#include "tests/support/temporary_folder.h"
#include "worker/checkpoint/checkpoint_format.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/types.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sys/stat.h>
#include <unistd.h>

namespace gnn::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::SimulatedDisk;
using Fault = SimulatedDisk::Fault;
using Survival = SimulatedDisk::Survival;

progress::EpochReport first_epoch() {
  progress::EpochReport epoch;
  epoch.epochs = 9;
  epoch.steps = 10;
  epoch.average_loss = 1.5;
  return epoch;
}

CheckpointState state_at(int64_t step) {
  return {
      .epoch = step / 10,
      .step = step % 10,
      .steps_per_epoch = 10,
      .global_step = step,
      .world_size = 4,
      .config_hash = "c0ffee",
      .bucket_layout_hash = "b0b",
      .environment = {{"threads", "2"}},
      .history =
          {.sums = {.loss = 0.1 * static_cast<double>(step), .items = 40, .correct = step},
           .epochs = {first_epoch()}},
      .model =
          {{"layer.weight", torch::full({3, 5}, static_cast<double>(step), torch::kFloat32)},
           {"layer.bias", torch::arange(step, step + 3, torch::kFloat64)}},
      .optimizer =
          {{"0/step", torch::tensor(step, torch::kInt64)},
           {"0/mask", torch::full({7}, step % 256, torch::kUInt8)}},
  };
}

bool same(const std::vector<CheckpointTensor>& a, const std::vector<CheckpointTensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].name != b[i].name || a[i].tensor.scalar_type() != b[i].tensor.scalar_type() ||
        !torch::equal(a[i].tensor, b[i].tensor)) {
      return false;
    }
  }
  return true;
}

bool same(const CheckpointState& a, const CheckpointState& b) {
  return a.epoch == b.epoch && a.step == b.step && a.global_step == b.global_step &&
         a.world_size == b.world_size && a.config_hash == b.config_hash &&
         a.bucket_layout_hash == b.bucket_layout_hash && a.environment == b.environment &&
         to_json(a.history) == to_json(b.history) && a.steps_per_epoch == b.steps_per_epoch &&
         same(a.model, b.model) && same(a.optimizer, b.optimizer);
}

class CheckpointTest : public ::testing::Test {
 protected:
  static CheckpointOptions options(int64_t attempt, int64_t keep = 3, int64_t round = 0) {
    return {
        .directory = "/job/checkpoints",
        .incarnation = {.job_uid = "one", .attempt = attempt, .round = round},
        .keep = keep,
    };
  }
  Result<CheckpointStore> begin(
      int64_t attempt, Inherit inherit = Inherit::Newest, int64_t keep = 3, int64_t round = 0
  ) const {
    return CheckpointStore::begin(options(attempt, keep, round), inherit, disk);
  }
  CheckpointStore must_begin(
      int64_t attempt, Inherit inherit = Inherit::Newest, int64_t keep = 3, int64_t round = 0
  ) const {
    auto store = begin(attempt, inherit, keep, round);
    if (!store) ADD_FAILURE() << store.error().message;
    return *std::move(store);
  }
  Result<CheckpointStore> begin_job(
      const std::string& uid, int64_t attempt, Inherit inherit = Inherit::Newest
  ) const {
    CheckpointOptions job = options(attempt);
    job.incarnation.job_uid = uid;
    return CheckpointStore::begin(job, inherit, disk);
  }
  CheckpointStore must_begin_job(
      const std::string& uid, int64_t attempt, Inherit inherit = Inherit::Newest
  ) const {
    auto store = begin_job(uid, attempt, inherit);
    if (!store) ADD_FAILURE() << store.error().message;
    return *std::move(store);
  }
  // Step of the newest valid checkpoint, its content checked; -1 where there is none.
  static int64_t newest(CheckpointStore& store) {
    const auto found = store.load_newest();
    if (!found) {
      ADD_FAILURE() << found.error().message;
      return -2;
    }
    if (!found->checkpoint) return -1;
    const CheckpointState& state = found->checkpoint->state;
    EXPECT_TRUE(same(state, state_at(state.global_step)));
    return state.global_step;
  }
  std::vector<std::string> files_of(const std::string& ending) const {
    std::vector<std::string> result;
    for (const fs::path& path : disk->paths()) {
      if (path.string().ends_with(ending)) result.push_back(path.string());
    }
    return result;
  }

  std::shared_ptr<SimulatedDisk> disk = std::make_shared<SimulatedDisk>();
};

TEST_F(CheckpointTest, LoadsWhatWasSaved) {
  CheckpointStore store = must_begin(1);
  EXPECT_EQ(newest(store), -1);
  const auto saved = store.save(state_at(12));
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(saved->path.string(), "/job/checkpoints/a000001-r0000/step-000000000012.manifest");
  EXPECT_EQ(newest(store), 12);
  const auto loaded = load_checkpoint(saved->path, *disk);
  ASSERT_TRUE(loaded);
  EXPECT_TRUE(same(loaded->state, state_at(12)));
}

TEST_F(CheckpointTest, KeepsEveryDtypeAndShape) {
  CheckpointState state = state_at(1);
  for (const auto type :
       {at::kFloat,
        at::kDouble,
        at::kHalf,
        at::kBFloat16,
        at::kLong,
        at::kInt,
        at::kShort,
        at::kChar,
        at::kByte,
        at::kBool}) {
    state.model.push_back({c10::toString(type), torch::arange(6).view({2, 3}).to(type)});
  }
  state.model.push_back({"scalar", torch::tensor(2.5)});
  state.model.push_back({"empty", torch::empty({0, 4})});
  state.model.push_back({"transposed", torch::arange(6).view({2, 3}).t()});
  state.model.push_back({"nan", torch::tensor({1.0, -0.0})});
  CheckpointStore store = must_begin(1);
  ASSERT_TRUE(store.save(state));
  const auto found = store.load_newest();
  ASSERT_TRUE(found && found->checkpoint);
  EXPECT_TRUE(same(found->checkpoint->state, state));
}

TEST_F(CheckpointTest, RefusesADtypeItCannotKeep) {
  CheckpointState state = state_at(1);
  state.model.push_back({"complex", torch::zeros({2}, torch::kComplexFloat)});
  CheckpointStore store = must_begin(1);
  const auto saved = store.save(state);
  ASSERT_FALSE(saved);
  EXPECT_THAT(saved.error().message, HasSubstr("complex"));
  EXPECT_EQ(newest(store), -1);
}

TEST_F(CheckpointTest, KeepsTheNewestOnesAndTheirDataAlone) {
  CheckpointStore store = must_begin(1);
  for (int64_t step = 1; step <= 7; ++step) ASSERT_TRUE(store.save(state_at(step)));
  EXPECT_EQ(files_of(".manifest").size(), 3U);
  EXPECT_EQ(files_of(".bin").size(), 3U);
  EXPECT_EQ(files_of(".tmp").size(), 0U);
  EXPECT_EQ(newest(store), 7);
}

TEST_F(CheckpointTest, KeepsTwoEvenWhenKeepIsOne) {
  CheckpointStore store = must_begin(1, Inherit::Newest, 1);
  for (int64_t step = 1; step <= 4; ++step) ASSERT_TRUE(store.save(state_at(step)));
  EXPECT_EQ(files_of(".manifest").size(), 2U);
}

TEST_F(CheckpointTest, KeepsOneMoreWhateverItsAgeAndWhoeverSavedIt) {
  CheckpointStore store = must_begin(1, Inherit::Newest, 1);
  for (int64_t step = 1; step <= 5; ++step) {
    ASSERT_TRUE(store.save(state_at(step)));
    if (step == 2) store.keep_also(2);
  }
  const std::string kept = "/job/checkpoints/a000001-r0000/step-000000000002.manifest";
  EXPECT_EQ(store.find(2)->value_or(""), kept);
  EXPECT_EQ(files_of(".manifest").size(), 3U);

  CheckpointStore later = must_begin(2, Inherit::Newest, 1);
  later.keep_also(2);
  for (int64_t step = 6; step <= 9; ++step) ASSERT_TRUE(later.save(state_at(step)));
  EXPECT_EQ(later.find(2)->value_or(""), kept);
  EXPECT_TRUE(load_checkpoint(kept, *disk)) << "with its data";
  EXPECT_EQ(newest(later), 9);
  later.keep_also(std::nullopt);
  ASSERT_TRUE(later.save(state_at(10)));
  EXPECT_FALSE(later.find(2)->has_value());
  EXPECT_EQ(files_of(".manifest").size(), 2U);
}

TEST_F(CheckpointTest, SavesTheSameStepAgain) {
  CheckpointStore store = must_begin(1);
  ASSERT_TRUE(store.save(state_at(5)));
  CheckpointState other = state_at(5);
  other.model[0].tensor.fill_(-1);
  ASSERT_TRUE(store.save(other));
  const auto found = store.load_newest();
  ASSERT_TRUE(found && found->checkpoint);
  EXPECT_TRUE(same(found->checkpoint->state, other));
  EXPECT_EQ(files_of(".bin").size(), 1U);
}

TEST_F(CheckpointTest, SkipsADamagedOneWhicheverByteIsWrong) {
  CheckpointStore store = must_begin(1);
  ASSERT_TRUE(store.save(state_at(1)));
  const auto before = disk->paths();
  ASSERT_TRUE(store.save(state_at(2)));
  for (const fs::path& path : disk->paths()) {
    if (std::ranges::find(before, path) != before.end()) continue;
    const std::string good = disk->content(path);
    for (size_t at = 0; at < good.size(); ++at) {
      disk->content(path)[at] = static_cast<char>(good[at] ^ 0x20);
      const auto found = store.load_newest();
      ASSERT_TRUE(found && found->checkpoint);
      EXPECT_EQ(found->checkpoint->state.global_step, 1) << path << " byte " << at;
      ASSERT_EQ(found->rejected.size(), 1U);
      disk->content(path) = good;
    }
    for (const size_t size : {size_t{0}, good.size() / 2, good.size() - 1}) {
      disk->content(path) = good.substr(0, size);
      EXPECT_EQ(newest(store), 1) << path << " cut to " << size;
    }
    disk->content(path) = good + "x";
    EXPECT_EQ(newest(store), 1) << path << " with a byte more";
    disk->content(path) = good;
  }
  EXPECT_EQ(newest(store), 2);
}

TEST_F(CheckpointTest, SaysWhatIsDamaged) {
  CheckpointStore store = must_begin(1);
  const auto saved = store.save(state_at(1));
  ASSERT_TRUE(saved);
  disk->erase(files_of(".bin").at(0));
  const auto loaded = load_checkpoint(saved->path, *disk);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::Data);
  EXPECT_THAT(loaded.error().message, HasSubstr("step-000000000001.manifest"));
  const auto found = store.load_newest();
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->checkpoint);
  EXPECT_EQ(found->rejected.at(0).path, saved->path);
}

TEST_F(CheckpointTest, SkipsOneWithAValueThatIsNotFinite) {
  for (const auto tensors :
       {&CheckpointState::model, &CheckpointState::optimizer, &CheckpointState::embeddings}) {
    CheckpointStore store = must_begin(1);
    ASSERT_TRUE(store.save(state_at(1)));
    CheckpointState state = state_at(2);
    (state.*tensors).push_back({"broken", torch::tensor({1.0, std::nan("")})});
    const auto saved = store.save(state);
    ASSERT_TRUE(saved);
    const auto found = store.load_newest();
    ASSERT_TRUE(found && found->checkpoint);
    EXPECT_EQ(found->checkpoint->state.global_step, 1);
    ASSERT_EQ(found->rejected.size(), 1U);
    EXPECT_THAT(found->rejected[0].reason, HasSubstr("broken holds a NaN or an infinity"));
    const auto loaded = load_checkpoint(saved->path, *disk);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().kind, ErrorKind::Data);
  }
}

// A manifest whose checksum is right but whose content lies must not be believed either.
TEST_F(CheckpointTest, BelievesNothingInAManifest) {
  const auto encoded = encode_checkpoint(state_at(1));
  ASSERT_TRUE(encoded);
  const std::string text(*unseal(encoded->bytes.manifest));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    changed.pop_back();
    return decode_checkpoint({.manifest = seal(changed), .data = encoded->bytes.data});
  };
  EXPECT_TRUE(with("c0ffee", "decaff"));
  EXPECT_FALSE(with("\"offset\": 64", "\"offset\": 640000"));
  EXPECT_FALSE(with("\"offset\": 64", "\"offset\": -64"));
  EXPECT_FALSE(with("\"offset\": 64", "\"offset\": 9223372036854775807"));
  EXPECT_FALSE(with("\"float64\"", "\"float1024\""));
  EXPECT_FALSE(with("\"shape\": [\n    3,\n    5\n   ]", "\"shape\": [4611686018427387904, 4]"));
  EXPECT_FALSE(with("\"shape\": [\n    3,\n    5\n   ]", "\"shape\": [-3, -5]"));
  EXPECT_FALSE(with("\"version\": 2", "\"version\": 1"));
  EXPECT_FALSE(with("\"averageLoss\"", "\"other\""));
  EXPECT_FALSE(with("\"stepsPerEpoch\"", "\"other\""));
  EXPECT_FALSE(with("\"section\": \"optimizer\"", "\"section\": \"root\""));
  EXPECT_FALSE(with("\"globalStep\"", "\"other\""));
  std::string outside = text;
  const std::string name = data_file_name(encoded->data_checksum);
  outside.replace(outside.find(name), name.size(), "../../../etc/passwd");
  outside.pop_back();
  EXPECT_FALSE(read_manifest(seal(outside)));
}

TEST_F(CheckpointTest, ALaterAttemptResumesFromAnEarlierOne) {
  CheckpointStore first = must_begin(1);
  for (const int64_t step : {1, 2, 3}) ASSERT_TRUE(first.save(state_at(step)));
  CheckpointStore second = must_begin(2);
  EXPECT_EQ(newest(second), 3);
  CheckpointStore third = must_begin(3);  // the second died before its first save
  EXPECT_EQ(newest(third), 3);
  ASSERT_TRUE(third.save(state_at(4)));
  CheckpointStore round = must_begin(3, Inherit::Newest, 3, 1);
  EXPECT_EQ(newest(round), 4);
  for (const int64_t step : {5, 6, 7}) ASSERT_TRUE(round.save(state_at(step)));
  EXPECT_EQ(files_of(".manifest").size(), 3U);
  EXPECT_EQ(files_of(".bin").size(), 3U);
  CheckpointStore fourth = must_begin(4);
  EXPECT_EQ(newest(fourth), 7);
}

TEST_F(CheckpointTest, AnEarlierAttemptMayNeitherBeginNorSaveAfterALaterOne) {
  CheckpointStore first = must_begin(1);
  ASSERT_TRUE(first.save(state_at(1)));
  CheckpointStore second = must_begin(2);
  const auto late = first.save(state_at(2));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::Conflict);
  const auto again = begin(1);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::Conflict);
  EXPECT_EQ(newest(second), 1);
  ASSERT_TRUE(second.save(state_at(2)));
  EXPECT_EQ(newest(second), 2);
}

TEST_F(CheckpointTest, ARecreatedJobResumesWhereTheOneBeforeItEnded) {
  must_begin_job("before", 1);
  CheckpointStore before = must_begin_job("before", 2);
  ASSERT_TRUE(before.save(state_at(9)));
  CheckpointStore after = must_begin_job("after", 1);
  EXPECT_EQ(newest(after), 9);
  ASSERT_TRUE(after.save(state_at(10)));
  CheckpointStore restarted = must_begin_job("after", 2);
  EXPECT_EQ(newest(restarted), 10);
}

TEST_F(CheckpointTest, AnEarlierJobMayNeitherSaveNorComeBack) {
  CheckpointStore before = must_begin_job("before", 5);
  ASSERT_TRUE(before.save(state_at(1)));
  CheckpointStore after = must_begin_job("after", 1);
  const auto late = before.save(state_at(2));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::Conflict);
  ASSERT_TRUE(after.save(state_at(3)));  // and the fences of the job before are gone
  const auto back = begin_job("before", 9);
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().kind, ErrorKind::Conflict);
  EXPECT_THAT(back.error().message, HasSubstr("after has taken this folder over"));
  EXPECT_EQ(newest(after), 3);
}

TEST_F(CheckpointTest, OnlyOneOfTwoJobsThatBeginAtOnceMaySave) {
  for (int64_t call = 0;; ++call) {
    disk = std::make_shared<SimulatedDisk>();
    std::optional<Result<CheckpointStore>> second;
    disk->before_call(call, [&] { second = begin_job("second", 1); });
    auto first = begin_job("first", 1);
    if (!disk->action_ran()) break;
    const bool first_saves = first && first->save(state_at(1));
    const bool second_saves = *second && (*second)->save(state_at(2));
    EXPECT_NE(first_saves, second_saves) << "call " << call;
  }
}

TEST_F(CheckpointTest, InheritNothingForgetsForGood) {
  CheckpointStore before = must_begin_job("before", 1);
  ASSERT_TRUE(before.save(state_at(9)));
  CheckpointStore first = must_begin_job("anew", 1, Inherit::Nothing);
  EXPECT_EQ(newest(first), -1);
  ASSERT_TRUE(first.save(state_at(1)));
  CheckpointStore second = must_begin_job("anew", 2, Inherit::Nothing);
  EXPECT_EQ(newest(second), 1) << "its own it goes on from";
  CheckpointStore again = must_begin_job("third", 1, Inherit::Nothing);
  EXPECT_EQ(newest(again), -1);
}

TEST_F(CheckpointTest, InheritNothingHoldsUntilAnIncarnationHasBegun) {
  CheckpointStore before = must_begin_job("before", 1);
  ASSERT_TRUE(before.save(state_at(9)));
  // The gang of attempt 1 ended before its rank 0 came to this.
  CheckpointStore second = must_begin_job("anew", 2, Inherit::Nothing);
  EXPECT_EQ(newest(second), -1);
  CheckpointStore third = must_begin_job("anew", 3, Inherit::Nothing);
  EXPECT_EQ(newest(third), -1);
}

TEST_F(CheckpointTest, InheritNothingHoldsWhereverABeginWasStopped) {
  for (int64_t call = 0;; ++call) {
    disk = std::make_shared<SimulatedDisk>();
    CheckpointStore before = must_begin_job("before", 1);
    ASSERT_TRUE(before.save(state_at(9)));
    disk->fail_at(call, Fault::Crash);
    static_cast<void>(begin_job("anew", 1, Inherit::Nothing));
    const bool fired = disk->fired();
    disk->restart(Survival::Some, static_cast<uint64_t>(call));
    CheckpointStore next = must_begin_job("anew", 1 + call % 2, Inherit::Nothing);
    EXPECT_EQ(newest(next), -1) << "call " << call;
    if (!fired) break;
  }
}

TEST_F(CheckpointTest, TheSameIncarnationFindsItsOwnCheckpointAgain) {
  CheckpointStore first = must_begin(1);
  ASSERT_TRUE(first.save(state_at(3)));
  CheckpointStore again = must_begin(1);
  EXPECT_EQ(newest(again), 3);
}

TEST_F(CheckpointTest, AnUnreadableDiskIsAnErrorNotAFreshStart) {
  CheckpointStore store = must_begin(1);
  ASSERT_TRUE(store.save(state_at(3)));
  for (int64_t call = 0;; ++call) {
    disk->fail_at(call, Fault::Error);
    const auto found = store.load_newest();
    if (!disk->fired()) break;
    ASSERT_FALSE(found) << "call " << call;
    EXPECT_EQ(found.error().kind, ErrorKind::Io);
  }
}

TEST_F(CheckpointTest, NamesADamagedFence) {
  CheckpointStore first = must_begin(1);
  ASSERT_TRUE(first.save(state_at(3)));
  disk->content("/job/checkpoints/FENCE-a000001-r0000")[3] ^= 1;
  const auto second = begin(2);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::Data);
  EXPECT_THAT(second.error().message, HasSubstr("FENCE-a000001-r0000"));
  disk->erase("/job/checkpoints/FENCE-a000001-r0000");
  CheckpointStore third = must_begin(2);
  EXPECT_EQ(newest(third), 3);
}

// Every call of a save fails, writes short or is where the machine stops: the newest checkpoint
// afterwards is the old or the new one, and the new one if save said so.
TEST_F(CheckpointTest, ASaveStoppedAnywhereLeavesTheOldOrTheNew) {
  int64_t faults = 0;
  for (const Fault fault : {Fault::Error, Fault::ShortWrite, Fault::Crash}) {
    for (int64_t call = 0;; ++call) {
      bool fired = false;
      for (const Survival survival : {Survival::None, Survival::All, Survival::Some}) {
        for (uint64_t seed = 0; seed < (survival == Survival::Some ? 12 : 1); ++seed) {
          disk = std::make_shared<SimulatedDisk>();
          CheckpointStore store = must_begin(1, Inherit::Newest, 2);
          for (const int64_t step : {1, 2, 3}) ASSERT_TRUE(store.save(state_at(step)));
          disk->fail_at(call, fault);
          const bool saved = store.save(state_at(4)).has_value();
          fired = disk->fired();
          faults += fired ? 1 : 0;
          disk->disarm();
          if (fault != Fault::Crash) {
            // The process lives on: the next save repairs what was left.
            const int64_t now = newest(store);
            EXPECT_TRUE(now == 4 || (!saved && now == 3)) << "call " << call << ": " << now;
            ASSERT_TRUE(store.save(state_at(5)));
            EXPECT_EQ(newest(store), 5);
            EXPECT_EQ(files_of(".tmp").size(), 0U);
            EXPECT_EQ(files_of(".bin").size(), 2U);
          } else {
            disk->restart(survival, seed);
            CheckpointStore next = must_begin(2, Inherit::Newest, 2);
            const int64_t now = newest(next);
            EXPECT_TRUE(now == 4 || (!saved && now == 3))
                << "call " << call << ", seed " << seed << ": " << now;
            ASSERT_TRUE(next.save(state_at(5)));
            EXPECT_EQ(newest(next), 5);
          }
        }
      }
      if (!fired) break;
    }
  }
  EXPECT_GT(faults, 300);
}

TEST_F(CheckpointTest, ABeginStoppedAnywhereLosesNothing) {
  int64_t faults = 0;
  for (const Fault fault : {Fault::Error, Fault::ShortWrite, Fault::Crash}) {
    for (int64_t call = 0;; ++call) {
      bool fired = false;
      for (uint64_t seed = 0; seed < 8; ++seed) {
        disk = std::make_shared<SimulatedDisk>();
        {
          CheckpointStore first = must_begin(1);
          for (const int64_t step : {1, 2}) ASSERT_TRUE(first.save(state_at(step)));
        }
        disk->fail_at(call, fault);
        static_cast<void>(begin(2));
        fired = disk->fired();
        faults += fired ? 1 : 0;
        disk->restart(seed == 0 ? Survival::None : Survival::Some, seed);
        // The same attempt again, or the next one.
        CheckpointStore next = must_begin(seed % 2 == 0 ? 2 : 3);
        EXPECT_EQ(newest(next), 2) << "call " << call << ", seed " << seed;
      }
      if (!fired) break;
    }
  }
  EXPECT_GT(faults, 100);
}

// Attempt 2 begins while attempt 1, which everybody believes dead, is in the middle of a save.
TEST_F(CheckpointTest, AFenceStopsAnOldWriterAtEveryMomentOfItsSave) {
  for (const int64_t keep : {1, 3}) {
    for (int64_t call = 0;; ++call) {
      disk = std::make_shared<SimulatedDisk>();
      CheckpointStore old = must_begin(1, Inherit::Newest, keep);
      for (const int64_t step : {1, 2}) ASSERT_TRUE(old.save(state_at(step)));
      std::optional<CheckpointStore> next;
      int64_t seen = -1;
      disk->before_call(call, [&] {
        next = must_begin(2, Inherit::Newest, keep);
        seen = newest(*next);
      });
      const auto saved = old.save(state_at(3));
      if (!disk->action_ran()) break;
      EXPECT_TRUE(seen == 2 || seen == 3);
      if (saved) {
        EXPECT_EQ(seen, 3) << "a save that returned was lost, call " << call;
      }
      EXPECT_EQ(newest(*next), seen) << "the old writer took it away, call " << call;
      const auto late = old.save(state_at(4));
      ASSERT_FALSE(late);
      EXPECT_EQ(late.error().kind, ErrorKind::Conflict);
      EXPECT_EQ(newest(*next), seen);
      CheckpointStore after = must_begin(3, Inherit::Newest, keep);
      EXPECT_EQ(newest(after), seen);
    }
  }
}

class PosixCheckpointTest : public ::testing::Test {
 protected:
  gnn::testing::TemporaryFolder folder;
  fs::path root = folder.path();
  std::shared_ptr<PosixFileOps> files = std::make_shared<PosixFileOps>();
};

TEST_F(PosixCheckpointTest, SavesAndLoadsOnARealDisk) {
  const auto open = [&](int64_t attempt) {
    return CheckpointStore::begin(
        {.directory = root / "deep/",
         .incarnation = {.job_uid = "one", .attempt = attempt},
         .keep = 2},
        Inherit::Newest,
        files
    );
  };
  auto first = open(1);
  ASSERT_TRUE(first) << first.error().message;
  for (const int64_t step : {1, 2, 3}) ASSERT_TRUE(first->save(state_at(step)));
  auto second = open(2);
  ASSERT_TRUE(second);
  const auto found = second->load_newest();
  ASSERT_TRUE(found && found->checkpoint);
  EXPECT_TRUE(same(found->checkpoint->state, state_at(3)));
  for (const int64_t step : {4, 5}) ASSERT_TRUE(second->save(state_at(step)));
  EXPECT_FALSE(fs::exists(root / "deep/a000001-r0000"));
  EXPECT_FALSE(fs::exists(root / "deep/FENCE-a000001-r0000"));
}

TEST_F(PosixCheckpointTest, NamesTheFileAndTheReason) {
  const auto missing = load_checkpoint(root / "step-000000000001.manifest", *files);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::NotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("step-000000000001.manifest"));
  const auto no_parent =
      CheckpointStore::begin({.directory = root / "a/b"}, Inherit::Newest, files);
  ASSERT_FALSE(no_parent);
  const auto bad_keep =
      CheckpointStore::begin({.directory = root, .keep = 0}, Inherit::Newest, files);
  ASSERT_FALSE(bad_keep);
  EXPECT_EQ(bad_keep.error().kind, ErrorKind::Configuration);
}

TEST_F(PosixCheckpointTest, RefusesANamedPipeInsteadOfWaitingForIt) {
  const std::string pipe = root / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto read_pipe = [&] {
    alarm(60);  // if it waits
    std::cerr << files->read(pipe, 100).error().message;
    std::_Exit(0);
  };
  EXPECT_EXIT(read_pipe(), ::testing::ExitedWithCode(0), "pipe: expected a regular file");
}

TEST_F(PosixCheckpointTest, ReportsAFullDisk) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const auto file = files->create("/dev/full");
  ASSERT_TRUE(file);
  const auto written = files->write(*file, "x", 1);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, ErrorKind::Io);
  EXPECT_THAT(written.error().message, HasSubstr("No space left"));
  EXPECT_TRUE(files->close(*file));
}

}  // namespace
}  // namespace gnn::checkpoint
