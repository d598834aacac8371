// Jobs whose nodes hold partitions, as processes on this machine.

#include "tests/support/read_file.h"
#include "tests/worker/data/dealt_parts.h"
#include "worker/app/job_file.h"
#include "worker/app/local_job.h"
#include "worker/data/generate.h"
#include "worker/data/native.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace gnn::app {
namespace {

namespace fs = std::filesystem;

const std::string kManifest = std::string(GNN_SAMPLES) + "/products-partitioned.yaml";

class PartitionsTest : public ::testing::Test {
 protected:
  PartitionsTest()
      : folder_(fs::path(::testing::TempDir()) / ("partitions-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    SilentProgressBar silent;
    const auto writer = data::NativeWriter::open(folder_ / "data", "test").value();
    data::DatasetArrays arrays =
        data::generate({.shape = data::Shape::Products, .scale = 0.001, .seed = 4}, *writer, silent)
            .value();
    data::testing::deal_to_parts(arrays, 2, *writer);
    const Status published = writer->publish(arrays, /*replace=*/false);
    EXPECT_TRUE(published) << published.error().message;
  }
  ~PartitionsTest() override { fs::remove_all(folder_); }

  [[nodiscard]] std::vector<std::string> fields(const std::string& placement) const {
    return {
        "dataset.path=" + (folder_ / "data").string(),
        "model.graphSage.hiddenChannels=16",
        "sampling.fanout=[5,3,2]",
        "training.batchSize=16",
        "training.epochs=2",
        "training.evaluation.every=1",
        "placement=" + placement
    };
  }

  // Runs the job of two nodes with two ranks each, as `gnn-worker run` does; returns its exit code.
  [[nodiscard]] int run(const std::vector<std::string>& changes) const {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto job = load_job(kManifest, changes);
      if (!job) std::_Exit(contract::exit_code_for(job.error().kind));
      std::vector<std::string> command = {
          std::getenv("GNN_RECORDING_RANK"), kManifest, folder_.string()
      };
      command.insert(command.end(), changes.begin(), changes.end());
      std::_Exit(run_local_job(*job, command));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  // What a rank was told: each loss, the metrics and the parameters, bit by bit.
  [[nodiscard]] std::string told(int rank) const {
    return testing::read_file(folder_ / ("rank-" + std::to_string(rank)));
  }

  fs::path folder_;
};

TEST_F(PartitionsTest, NodesThatServeEachOtherEndWithTheBitsOfThoseThatHaveAllData) {
  ASSERT_EQ(run(fields(R"({"partitions":2})")), 0);
  const std::string expected = told(0);
  EXPECT_NE(expected.find("parameters "), std::string::npos) << expected;
  ASSERT_EQ(
      run(fields(R"({"topology":"Partitioned","features":"Partitioned","partitions":2})")), 0
  );
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(told(rank), expected) << "rank " << rank;
}

TEST_F(PartitionsTest, OtherPartitionsThanTheJobsAreRefused) {
  EXPECT_EQ(run(fields(R"({"partitions":1})")), contract::kExitConfiguration);
  EXPECT_EQ(run(fields(R"({"partitions":3})")), contract::kExitConfiguration) << "two nodes";
  std::vector<std::string> too_many =
      fields(R"({"topology":"Partitioned","features":"Partitioned","partitions":3})");
  too_many.insert(too_many.end(), {"workers.nodes=3", "workers.processesPerNode=1"});
  EXPECT_EQ(run(too_many), contract::kExitConfiguration) << "there is no third partition";
}

}  // namespace
}  // namespace gnn::app
