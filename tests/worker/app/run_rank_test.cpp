#include "worker/app/run_rank.h"

#include "common/contract.h"
#include "tests/support/read_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/user_behavior.h"
#include "tests/worker/app/samples.h"
#include "tests/worker/data/files.h"
#include "worker/nn/functional/matmul.h"

#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace gnn::app {
namespace {

using ::testing::HasSubstr;

api::GnnJobSpec spec_with(api::DeviceChoice device, int64_t gpus_per_process) {
  api::GnnJobSpec spec;
  spec.training.device = device;
  spec.workers.gpus_per_process = gpus_per_process;
  return spec;
}

TEST(ChooseDevice, GivesEachLocalRankItsGpuIfTheJobAsksForAny) {
  EXPECT_TRUE(choose_device(spec_with(api::DeviceChoice::Auto, 0), 0, 8)->is_cpu());
  const auto device = choose_device(spec_with(api::DeviceChoice::Auto, 1), 2, 4);
  EXPECT_EQ(device->str(), "cuda:2");
  EXPECT_TRUE(choose_device(spec_with(api::DeviceChoice::CPU, 1), 2, 4)->is_cpu());
}

TEST(ChooseDevice, FallsBackToTheCpuOnlyWithAuto) {
  EXPECT_TRUE(choose_device(spec_with(api::DeviceChoice::Auto, 1), 2, 2)->is_cpu());
  const auto device = choose_device(spec_with(api::DeviceChoice::CUDA, 1), 2, 2);
  ASSERT_FALSE(device.has_value());
  EXPECT_EQ(device.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(device.error().message, HasSubstr("spec.training.device"));
}

TEST(PrecisionWarning, NamesWhatTheProcessorOfAJobInBFloat16Lacks) {
  api::GnnJobSpec spec;
  const c10::Device cpu(c10::kCPU);
  EXPECT_FALSE(precision_warning(spec, cpu, false));
  spec.training.precision = api::Precision::BFloat16;
  EXPECT_FALSE(precision_warning(spec, cpu, true));
  EXPECT_FALSE(precision_warning(spec, c10::Device(c10::kCUDA, 0), false));
  EXPECT_THAT(
      precision_warning(spec, cpu, false).value(),
      ::testing::AllOf(
          ::testing::StartsWith("spec.training.precision: BFloat16"),
          ::testing::HasSubstr("AVX512-BF16")
      )
  );
}

TEST(SetPrecision, SetsTheProductsOfAGpuByTheSpecAlone) {
  api::GnnJobSpec spec;
  const c10::Device gpu(c10::kCUDA, 0);
  spec.training.precision = api::Precision::TF32;
  ASSERT_TRUE(set_precision(spec, gpu));
  EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
  for (const api::Precision other : {api::Precision::BFloat16, api::Precision::Float32}) {
    nn::set_tf32_products(true);  // as an environment variable of torch's does
    spec.training.precision = other;
    ASSERT_TRUE(set_precision(spec, gpu));
    EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
  }
}

TEST(SetPrecision, RefusesTF32OnACpu) {
  api::GnnJobSpec spec;
  spec.training.precision = api::Precision::TF32;
  const Status refused = set_precision(spec, c10::Device(c10::kCPU));
  ASSERT_FALSE(refused);
  EXPECT_EQ(contract::exit_code_for(refused.error().kind), contract::kExitConfiguration);
  EXPECT_THAT(refused.error().message, ::testing::StartsWith("spec.training.precision: TF32"));
}

TEST(RunRank, FailsWithDataIfTheDataSetIsMissing) {
  const auto result = run_job(sample("cora.yaml", {"dataset.path=/no/such/folder"}));
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(contract::exit_code_for(result.error().kind), contract::kExitData)
      << result.error().message;
}

TEST(RunRank, TrainsTheRedditSampleOnFilesOfRedditsForm) {
  const gnn::testing::TemporaryFolder folder;
  data::testing::RedditFiles().write(folder);
  const auto result = run_job(
      sample("reddit-sage.yaml", {"dataset.path=" + folder.path("reddit"), "training.batchSize=2"})
  );
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->report.epochs, 20);
  for (const char* metric : {"train_accuracy", "validation_accuracy", "test_accuracy"})
    EXPECT_TRUE(result->report.metrics.contains(metric)) << metric;
}

// Six graphs of two nodes and one edge, of two classes, in GIN's text format.
class SmallGraphs : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text = "6\n";
    for (int graph = 0; graph < 6; ++graph) {
      text += "2 " + std::to_string(graph % 2) + "\n0 1 1\n0 1 0\n";
    }
    folder_.write("small.txt", text);
  }

  [[nodiscard]] std::vector<std::string> overrides() const {
    return {
        "dataset.path=" + folder_.path("small.txt"),
        "dataset.split.folds=2",
        "training.epochs=1",
        "training.batchSize=3",
        "checkpoint.path=" + folder_.path("checkpoints")
    };
  }

  gnn::testing::TemporaryFolder folder_;
};

TEST_F(SmallGraphs, KeepTheCheckpointsOfEachFoldInAFolderOfItsOwn) {
  const auto result = run_job(sample("imdb-gin-folds.yaml", overrides()));
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(std::filesystem::is_directory(folder_.path("checkpoints/fold-0")));
  EXPECT_TRUE(std::filesystem::is_directory(folder_.path("checkpoints/fold-1")));
}

TEST_F(SmallGraphs, RejectOneCheckpointForAllFolds) {
  std::vector<std::string> with_resume = overrides();
  with_resume.emplace_back("checkpoint.resume=/some/checkpoint");
  const auto result = run_job(sample("imdb-gin-folds.yaml", with_resume));
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(result.error().message, HasSubstr("spec.checkpoint.resume"));
}

TEST(RunRank, DoesNotResumeOnLinksThatAreSplitInAnotherWay) {
  const gnn::testing::TemporaryFolder folder;
  gnn::testing::write_user_behavior(
      folder.path("views"), {.users = 60, .items = 40, .views = 600, .communities = 2, .loyalty = 1}
  );
  std::vector<std::string> overrides{
      "dataset.path=" + folder.path("views"),
      "dataset.split.seed=3",
      "training.batchSize=64",
      "training.epochs=1",
      "checkpoint.path=" + folder.path("checkpoints"),
      "checkpoint.resume=Auto"
  };
  ASSERT_TRUE(run_job(sample("taobao-bipartite.yaml", overrides)));
  overrides.emplace_back("training.epochs=2");
  ASSERT_TRUE(run_job(sample("taobao-bipartite.yaml", overrides)));
  overrides.emplace_back("dataset.split.seed=4");
  const auto other = run_job(sample("taobao-bipartite.yaml", overrides));
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(other.error().message, HasSubstr("split by seed 3, validation 0.1"));
  EXPECT_THAT(other.error().message, HasSubstr("split by seed 4"));
}

TEST(RunRank, TrainsAGeneratedGraph) {
  const auto result = run_job(sample(
      "arxiv-sage.yaml",
      {"dataset.synthetic.scale=\"0.01\"",
       "training.epochs=10",
       "model.graphSage.hiddenChannels=64",
       "training.batchSize=128",
       "workers.nodes=1",
       "workers.processesPerNode=1"}
  ));
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->report.epochs, 10);
  // Guessing gives 1/40.
  EXPECT_GT(result->report.metrics.at("test_accuracy"), 0.2);
  EXPECT_EQ(result->report.parameters_hash.size(), 16U);
}

TEST(RunRank, StopsEarlyAndTestsTheBestEpoch) {
  const gnn::testing::TemporaryFolder folder;
  const auto result = run_job(sample(
      "arxiv-best.yaml",
      {"dataset.synthetic.scale=\"0.01\"",
       "training.epochs=30",
       "training.optimizer.learningRate=\"0.05\"",
       "training.optimizer.schedule.warmup.length=5",
       "training.earlyStopping.patience=2",
       "model.graphSage.hiddenChannels=32",
       "training.batchSize=128",
       "checkpoint.path=" + folder.path("checkpoints"),
       "export.path=" + folder.path("models")}
  ));
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const progress::FinalReport& report = result->report;
  ASSERT_TRUE(report.best.has_value());
  EXPECT_LT(report.epochs, 30);
  EXPECT_EQ(report.best->epoch, report.epochs - 3) << "two evaluations after it";
  EXPECT_EQ(report.test_model, "best");
  EXPECT_GT(report.metrics.at("test_accuracy"), 0.05) << "guessing gives 1/40";
  EXPECT_TRUE(std::filesystem::exists(report.best->checkpoint));
}

TEST(RunRank, PredictsByAnExportedModelWhatItsTrainingHasMeasured) {
  const gnn::testing::TemporaryFolder folder;
  const std::vector<std::string> both{
      "dataset.synthetic.scale=\"0.01\"",
      "model.graphSage.hiddenChannels=32",
      R"(predictions.outputs=["Classes", "Scores", "Embeddings"])"
  };
  std::vector<std::string> overrides{
      "training.epochs=4",
      "training.batchSize=128",
      "training.earlyStopping.patience=1",
      "training.optimizer.schedule.warmup.length=2",
      "checkpoint.path=" + folder.path("checkpoints"),
      "export.path=" + folder.path("models"),
      "predictions.path=" + folder.path("training")
  };
  overrides.insert(overrides.end(), both.begin(), both.end());
  const auto trained = run_job(sample("arxiv-best.yaml", overrides));
  ASSERT_TRUE(trained.has_value()) << trained.error().message;

  for (const std::string& from :
       {folder.path("models/best.safetensors"), trained->report.best->checkpoint}) {
    overrides = {"model.from=" + from, "predictions.path=" + folder.path("inference")};
    overrides.insert(overrides.end(), both.begin(), both.end());
    const auto inferred = run_job(sample("arxiv-classes.yaml", overrides));
    ASSERT_TRUE(inferred.has_value()) << inferred.error().message;
    EXPECT_EQ(inferred->report.epochs, 0);
    for (const char* metric : {"test_accuracy", "validation_accuracy"})
      EXPECT_GT(inferred->report.metrics.at(metric), 0.05) << metric;
    EXPECT_EQ(
        inferred->report.metrics.at("test_accuracy"), trained->report.metrics.at("test_accuracy")
    );
    for (const char* file : {"/ids.npy", "/classes.npy", "/scores.npy", "/embeddings.npy"})
      EXPECT_EQ(
          gnn::testing::read_file(folder.path("inference") + file),
          gnn::testing::read_file(folder.path("training") + file)
      ) << file;
  }
}

}  // namespace
}  // namespace gnn::app
