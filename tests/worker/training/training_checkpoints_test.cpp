#include "worker/training/training_checkpoints.h"

#include "tests/support/simulated_disk.h"
#include "tests/worker/comm/in_process_ranks.h"
#include "worker/progress/console_sink.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

using ::testing::HasSubstr;
using testing::SimulatedDisk;

TrainingCheckpointOptions options_of(const std::string& uid, const std::string& resume) {
  TrainingCheckpointOptions options;
  options.checkpoint.path = "/job/checkpoints";
  options.checkpoint.resume = resume;
  options.incarnation = {.job_uid = uid, .attempt = 0, .round = 0};
  return options;
}

checkpoint::CheckpointState state_at(int64_t step) {
  checkpoint::CheckpointState state;
  state.step = step;
  state.global_step = step;
  state.history.epochs.resize(2);
  state.model = {{"weight", at::full({4}, static_cast<double>(step))}};
  return state;
}

Result<TrainingCheckpoints> open(
    const TrainingCheckpointOptions& options,
    std::shared_ptr<comm::Communicator> communicator,
    std::shared_ptr<SimulatedDisk> disk
) {
  static progress::NullSink sink;
  return TrainingCheckpoints::open(options, std::move(communicator), sink, std::move(disk));
}

// One rank's checkpoint of each step, in a job of its own.
void save(
    const std::string& uid, const std::vector<int64_t>& steps, std::shared_ptr<SimulatedDisk> disk
) {
  auto checkpoints =
      open(options_of(uid, "Auto"), comm::make_single_communicator(), std::move(disk));
  ASSERT_TRUE(checkpoints) << checkpoints.error().message;
  for (const int64_t step : steps) ASSERT_TRUE(checkpoints->save([&] { return state_at(step); }));
}

std::filesystem::path file_ending_in(const SimulatedDisk& disk, const std::string& ending) {
  for (const auto& path : disk.paths()) {
    if (path.string().ends_with(ending)) return path;
  }
  ADD_FAILURE() << "no file ends in " << ending;
  return {};
}

// Passes everything on, and keeps the bytes of each broadcast from rank 0.
class BroadcastRecorder final : public comm::Communicator {
 public:
  explicit BroadcastRecorder(std::shared_ptr<comm::Communicator> inner)
      : inner_(std::move(inner)) {}

  int64_t rank() const override { return inner_->rank(); }
  int64_t world_size() const override { return inner_->world_size(); }
  const char* backend() const override { return inner_->backend(); }
  Status all_reduce(at::Tensor tensor, comm::ReduceOp op, std::optional<Timeout> timeout) override {
    return inner_->all_reduce(tensor, op, timeout);
  }
  Status broadcast(at::Tensor tensor, int64_t root) override {
    if (tensor.scalar_type() == at::kByte) {
      sent.emplace_back(
          static_cast<const char*>(tensor.const_data_ptr()), static_cast<size_t>(tensor.numel())
      );
    }
    return inner_->broadcast(tensor, root);
  }
  Result<std::vector<at::Tensor>> all_gather(const at::Tensor& tensor) override {
    return inner_->all_gather(tensor);
  }
  Status barrier(std::optional<Timeout> timeout) override { return inner_->barrier(timeout); }

  std::vector<std::string> sent;

 private:
  std::shared_ptr<comm::Communicator> inner_;
};

TEST(TrainingCheckpoints, GivesEveryRankWhatRank0Read) {
  const auto disk = std::make_shared<SimulatedDisk>();
  save("before", {5, 7}, disk);
  const std::string manifest = disk->content(file_ending_in(*disk, "step-000000000007.manifest"));
  comm::run_ranks(2, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const auto recorder = std::make_shared<BroadcastRecorder>(communicator);
    // Only rank 0 has the volume.
    const auto files = communicator->rank() == 0 ? disk : nullptr;
    auto checkpoints = comm::require(open(options_of("one", "Auto"), recorder, files));
    const Resume resume = comm::require(checkpoints.resume());
    ASSERT_TRUE(resume.state.has_value());
    EXPECT_EQ(resume.state->global_step, 7);
    EXPECT_EQ(resume.state->history.epochs.size(), 2U);
    EXPECT_TRUE(resume.state->model.at(0).tensor.equal(at::full({4}, 7.0)));
    EXPECT_THAT(resume.path, HasSubstr("step-000000000007.manifest"));
    if (communicator->rank() == 0) {
      EXPECT_EQ(recorder->sent.at(0), manifest) << "the bytes of the file, not an encoding of them";
    }
  });
}

TEST(TrainingCheckpoints, TellsEveryRankTheSavedPath) {
  const auto disk = std::make_shared<SimulatedDisk>();
  comm::run_ranks(2, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const auto files = communicator->rank() == 0 ? disk : nullptr;
    auto checkpoints = comm::require(open(options_of("one", "Auto"), communicator, files));
    EXPECT_FALSE(comm::require(checkpoints.resume()).state.has_value()) << "an empty folder";
    int64_t captures = 0;
    const std::string path = comm::require(checkpoints.save([&] {
      ++captures;
      return state_at(3);
    }));
    EXPECT_EQ(path, "/job/checkpoints/a000000-r0000/step-000000000003.manifest");
    EXPECT_EQ(captures, communicator->rank() == 0 ? 1 : 0);
  });
}

TEST(TrainingCheckpoints, FailsOnAllRanksWhenRank0CannotWrite) {
  const auto disk = std::make_shared<SimulatedDisk>();
  comm::run_ranks(2, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const bool writes = communicator->rank() == 0;
    auto checkpoints =
        comm::require(open(options_of("one", "Auto"), communicator, writes ? disk : nullptr));
    if (writes) disk->fail_at(0, SimulatedDisk::Fault::Error);
    const auto path = checkpoints.save([] { return state_at(3); });
    ASSERT_FALSE(path.has_value());
    EXPECT_EQ(path.error().kind, writes ? ErrorKind::Io : ErrorKind::PeerLost);
  });
}

TEST(TrainingCheckpoints, ResumesFromTheNamedCheckpointUntilTheJobHasItsOwn) {
  const auto disk = std::make_shared<SimulatedDisk>();
  save("before", {5, 7}, disk);
  const std::string named = file_ending_in(*disk, "step-000000000005.manifest");
  const auto alone = comm::make_single_communicator();
  auto first = comm::require(open(options_of("one", named), alone, disk));
  EXPECT_EQ(comm::require(first.resume()).state->global_step, 5);
  comm::require(first.save([] { return state_at(9); }));
  TrainingCheckpointOptions next_round = options_of("one", named);
  next_round.incarnation.round = 1;
  auto second = comm::require(open(next_round, alone, disk));
  EXPECT_EQ(comm::require(second.resume()).state->global_step, 9);
}

TEST(TrainingCheckpoints, StartsAnewWhenResumeIsNever) {
  const auto disk = std::make_shared<SimulatedDisk>();
  save("before", {5}, disk);
  auto checkpoints =
      comm::require(open(options_of("one", "Never"), comm::make_single_communicator(), disk));
  EXPECT_FALSE(comm::require(checkpoints.resume()).state.has_value());
}

TEST(TrainingCheckpoints, SaysWhichCheckpointsItSkipped) {
  const auto disk = std::make_shared<SimulatedDisk>();
  save("before", {5, 7}, disk);
  disk->content(file_ending_in(*disk, "step-000000000007.manifest"))[10] ^= 1;
  auto checkpoints =
      comm::require(open(options_of("one", "Auto"), comm::make_single_communicator(), disk));
  const Resume resume = comm::require(checkpoints.resume());
  EXPECT_EQ(resume.state->global_step, 5);
  ASSERT_EQ(resume.notices.size(), 1U);
  EXPECT_THAT(resume.notices[0], HasSubstr("step-000000000007.manifest"));
  EXPECT_THAT(resume.notices[0], HasSubstr("damaged"));
}

}  // namespace
}  // namespace gnn::training
