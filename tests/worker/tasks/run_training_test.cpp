#include "worker/tasks/run_training.h"

#include "common/api/defaults.h"
#include "tests/common/api/sample_job.h"
#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/training/counting_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace gnn::tasks {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

graph::Dataset dataset_of(const std::string& digest) {
  graph::Dataset dataset;
  dataset.name = "arxiv";
  dataset.digest = digest;
  return dataset;
}

TEST(CheckSameDataset, AcceptsEqualDigests) {
  comm::run_ranks(2, [](const std::shared_ptr<comm::Communicator>& communicator) {
    EXPECT_TRUE(check_same_dataset(*communicator, dataset_of("xxh64:1")));
  });
}

TEST(CheckSameDataset, NamesRanksAndDigestsOnEveryRank) {
  comm::run_ranks(3, [](const std::shared_ptr<comm::Communicator>& communicator) {
    const bool stale = communicator->rank() == 1;
    const Status status =
        check_same_dataset(*communicator, dataset_of(stale ? "xxh64:2" : "xxh64:1"));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::Data);
    EXPECT_THAT(
        status.error().message,
        AllOf(HasSubstr("spec.dataset"), HasSubstr("xxh64:1 on ranks 0, 2; xxh64:2 on rank 1"))
    );
  });
}

// What a rank of a job that generates its graph from the seed loads.
Result<graph::Dataset> load_generated(
    const std::shared_ptr<comm::Communicator>& communicator, int64_t seed
) {
  api::GnnJobSpec spec;
  spec.dataset.format = api::DatasetFormat::Synthetic;
  spec.dataset.synthetic = api::Synthetic{.scale = {"0.001"}, .seed = seed};
  SilentProgressBar loading;
  training::CountingSink progress;
  const StopToken stop;
  TaskContext context{
      .communicator = communicator,
      .incarnation = {},
      .loading = loading,
      .progress = progress,
      .stop = stop
  };
  return load_dataset(spec, context);
}

TEST(LoadDataset, RefusesRanksThatHaveReadDifferentData) {
  comm::run_ranks(2, [](const std::shared_ptr<comm::Communicator>& communicator) {
    EXPECT_TRUE(load_generated(communicator, 1));
    const auto different = load_generated(communicator, communicator->rank());
    ASSERT_FALSE(different);
    EXPECT_EQ(different.error().kind, ErrorKind::Data);
    EXPECT_THAT(different.error().message, HasSubstr("expected the same data set"));
  });
}

TEST(OptionsOfTrainer, NameTheDataThatCheckpointsAreComparedWith) {
  SilentProgressBar loading;
  training::CountingSink progress;
  const StopToken stop;
  const TaskContext context{
      .communicator = comm::make_single_communicator(),
      .incarnation = {},
      .loading = loading,
      .progress = progress,
      .stop = stop
  };
  EXPECT_EQ(trainer_options({}, dataset_of("xxh64:1"), context).dataset_digest, "xxh64:1");
}

TEST(ConfigHash, LeavesOutWhereDataLiesButNotWhoTrainsOnIt) {
  const auto hash_with = [](const std::function<void(api::GnnJobSpec&)>& change) {
    api::GnnJobSpec spec = api::sample_partitioned_job().spec;
    change(spec);
    api::apply_defaults(spec);
    return config_hash(spec);
  };
  const std::string hash = hash_with([](api::GnnJobSpec&) {});
  EXPECT_EQ(hash_with([](auto& spec) { spec.placement->topology = {}; }), hash);
  EXPECT_EQ(hash_with([](auto& spec) { spec.placement = api::Placement{.partitions = 1}; }), hash);
  EXPECT_EQ(hash_with([](auto& spec) { spec.sampling->concurrency = 8; }), hash);
  EXPECT_EQ(hash_with([](auto& spec) { spec.sampling->prefetch = 8; }), hash);
  EXPECT_EQ(hash_with([](auto& spec) { spec.sampling->channel_size = "64Mi"; }), hash);
  EXPECT_EQ(hash_with([](auto& spec) { spec.prepare.emplace(); }), hash);
  EXPECT_EQ(hash_with([](auto& spec) { spec.model_export.emplace(); }), hash);
  EXPECT_EQ(hash_with([](auto& spec) { spec.predictions.emplace(); }), hash);
  EXPECT_EQ(hash_with([](auto& spec) { spec.servers.emplace(); }), hash);
  EXPECT_EQ(hash_with([](auto& spec) { spec.servers = api::Servers{.nodes = 3}; }), hash);
  EXPECT_EQ(hash_with([](auto& spec) { spec.scheduling.emplace(); }), hash);
  EXPECT_EQ(hash_with([](auto& spec) { spec.run_policy.server_timeout_seconds = 9; }), hash);
  EXPECT_EQ(hash_with([](auto& spec) { spec.training.early_stopping.emplace(); }), hash);
  EXPECT_NE(hash_with([](auto& spec) { spec.placement.reset(); }), hash) << "Slice, not Owner";
}

TEST(ConfigHash, TakesFloat32ForTheDefaultThatItIs) {
  const auto hash_of = [](std::optional<api::Precision> precision) {
    api::GnnJobSpec spec = api::sample_job().spec;
    spec.training.precision = precision;
    api::apply_defaults(spec);
    return config_hash(spec);
  };
  EXPECT_EQ(hash_of(api::Precision::Float32), hash_of(std::nullopt));
  EXPECT_NE(hash_of(api::Precision::BFloat16), hash_of(std::nullopt));
  EXPECT_NE(hash_of(api::Precision::TF32), hash_of(std::nullopt));
}

TEST(ConfigHash, CountsTheEpochsWhereTheLearningRateDependsOnThem) {
  const auto hash_of = [](std::optional<api::ScheduleType> schedule, int64_t epochs) {
    api::GnnJobSpec spec = api::sample_job().spec;
    spec.training.epochs = epochs;
    if (schedule) spec.training.optimizer.schedule = api::LearningRateSchedule{.type = *schedule};
    api::apply_defaults(spec);
    return config_hash(spec);
  };
  EXPECT_EQ(hash_of(std::nullopt, 5), hash_of(std::nullopt, 6));
  EXPECT_EQ(hash_of(api::ScheduleType::Step, 5), hash_of(api::ScheduleType::Step, 6));
  EXPECT_NE(hash_of(api::ScheduleType::Cosine, 5), hash_of(api::ScheduleType::Cosine, 6));
  EXPECT_NE(hash_of(std::nullopt, 5), hash_of(api::ScheduleType::Constant, 5));
}

}  // namespace
}  // namespace gnn::tasks
