#include "worker/app/job_file.h"

#include "common/contract.h"
#include "tests/worker/app/samples.h"
#include "worker/tasks/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace gnn::app {
namespace {

using ::testing::HasSubstr;

bool is_gnn_job(const std::filesystem::path& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line == "kind: GNNJob") return true;
  }
  return false;
}

TEST(Samples, AllLoadAndFitATask) {
  int64_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GNN_SAMPLES)) {
    if (!is_gnn_job(entry.path())) continue;  // data-import.yaml is a plain Job
    ++found;
    const auto job = load_job(entry.path().string());
    ASSERT_TRUE(job.has_value()) << job.error().message;
    EXPECT_TRUE(tasks::parse_task(*job).has_value()) << entry.path();
  }
  EXPECT_GE(found, 6);
}

TEST(LoadJob, SetsFieldsOfTheSpec) {
  const api::GnnJob job = sample(
      "cora.yaml",
      {"training.epochs=3",
       "spec.dataset.path=/elsewhere",
       "sampling.fanout=[5,5]",
       "training.optimizer.learningRate=\"0.5\""}
  );
  EXPECT_EQ(job.spec.training.epochs, 3);
  EXPECT_EQ(job.spec.dataset.path, "/elsewhere");
  EXPECT_EQ(job.spec.sampling->fanout, (std::vector<int64_t>{5, 5}));
  EXPECT_EQ(job.spec.training.optimizer.learning_rate.text, "0.5");
}

TEST(LoadJob, NamesAFieldThatIsNone) {
  const auto job = load_job(std::string(GNN_SAMPLES) + "/cora.yaml", {"training.epocs=3"});
  ASSERT_FALSE(job.has_value());
  EXPECT_EQ(job.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(job.error().message, HasSubstr("epocs"));
}

TEST(LoadJob, NamesEveryFieldThatIsWrong) {
  const auto job = load_job(
      std::string(GNN_SAMPLES) + "/cora.yaml",
      {"training.epochs=-1", "sampling.fanout=[5]", "training.batchSize=0"}
  );
  ASSERT_FALSE(job.has_value());
  EXPECT_EQ(contract::exit_code_for(job.error().kind), contract::kExitConfiguration);
  EXPECT_THAT(job.error().message, HasSubstr("spec.training.epochs"));
  EXPECT_THAT(job.error().message, HasSubstr("spec.sampling.fanout"));
  EXPECT_THAT(job.error().message, HasSubstr("spec.training.batchSize"));
}

TEST(LoadJob, RefusesAnOverrideWithoutAPath) {
  EXPECT_FALSE(load_job(std::string(GNN_SAMPLES) + "/cora.yaml", {"=3"}).has_value());
  EXPECT_FALSE(load_job(std::string(GNN_SAMPLES) + "/cora.yaml", {"epochs"}).has_value());
  EXPECT_FALSE(
      load_job(std::string(GNN_SAMPLES) + "/cora.yaml", {"training.epochs.more=1"}).has_value()
  );
}

TEST(LoadJob, NamesTheFileThatIsNotThere) {
  const auto job = load_job("/no/such/job.yaml");
  ASSERT_FALSE(job.has_value());
  EXPECT_THAT(job.error().message, HasSubstr("/no/such/job.yaml"));
}

TEST(RunRank, GivesConfigurationForCudaThatIsAbsent) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "this machine has CUDA";
  const auto device = choose_device(api::DeviceChoice::CUDA, 0);
  ASSERT_FALSE(device.has_value());
  EXPECT_EQ(device.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(device.error().message, HasSubstr("spec.training.device"));
  EXPECT_EQ(choose_device(api::DeviceChoice::Auto, 0)->type(), c10::kCPU);
}

TEST(RunRank, GivesDataForADataSetThatIsNotThere) {
  const auto outcome = run_job(sample("cora.yaml", {"dataset.path=/no/such/folder"}));
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(contract::exit_code_for(outcome.error().kind), contract::kExitData)
      << outcome.error().message;
}

/// Six graphs of two nodes and one edge, of two classes, in GIN's text form; removed at the end.
class SmallGraphs : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    std::ofstream file(folder_ + "/small.txt");
    file << "6\n";
    for (int graph = 0; graph < 6; ++graph) file << "2 " << graph % 2 << "\n0 1 1\n0 1 0\n";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::vector<std::string> overrides() const {
    return {
        "dataset.path=" + folder_ + "/small.txt",
        "dataset.split.folds=2",
        "training.epochs=1",
        "training.batchSize=3",
        "checkpoint.path=" + folder_ + "/checkpoints"
    };
  }

  std::string folder_ =
      (std::filesystem::temp_directory_path() / "gnn-small-graphs-XXXXXX").string();
};

TEST_F(SmallGraphs, KeepEachFoldsCheckpointsInAFolderThatIsMade) {
  const auto outcome = run_job(sample("imdb-gin-folds.yaml", overrides()));
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
  EXPECT_TRUE(std::filesystem::is_directory(folder_ + "/checkpoints/fold-0"));
  EXPECT_TRUE(std::filesystem::is_directory(folder_ + "/checkpoints/fold-1"));
}

TEST_F(SmallGraphs, RefuseOneCheckpointForAllFolds) {
  std::vector<std::string> with_resume = overrides();
  with_resume.emplace_back("checkpoint.resume=/some/checkpoint");
  const auto outcome = run_job(sample("imdb-gin-folds.yaml", with_resume));
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(outcome.error().message, HasSubstr("spec.checkpoint.resume"));
}

TEST(RunRank, TrainsAGeneratedGraph) {
  const auto outcome = run_job(sample(
      "arxiv-sage.yaml",
      {"dataset.synthetic.scale=\"0.01\"",
       "training.epochs=10",
       "model.graphSage.hiddenChannels=64",
       "training.batchSize=128",
       "workers.nodes=1",
       "workers.processesPerNode=1"}
  ));
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
  EXPECT_EQ(outcome->report.epochs, 10);
  // Guessing gives 1/40.
  EXPECT_GT(outcome->report.metrics.at("test_accuracy"), 0.2);
  EXPECT_EQ(outcome->report.parameters_hash.size(), 16U);
}

}  // namespace
}  // namespace gnn::app
