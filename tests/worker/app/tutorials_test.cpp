// The samples that follow the tutorials, with four ranks in two nodes.

#include "tests/support/read_file.h"
#include "tests/support/small_graphs.h"
#include "worker/agent/local_agents.h"
#include "worker/app/store_connector.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace gnn::app {
namespace {

namespace fs = std::filesystem;
using testing::read_file;

class TutorialTest : public ::testing::Test {
 protected:
  TutorialTest()
      : folder_(fs::path(::testing::TempDir()) / ("tutorials-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~TutorialTest() override { fs::remove_all(folder_); }

  // Runs the sample in a child process, as the job's parent; returns its exit code.
  int run(const std::string& name, const std::vector<std::string>& fields) const {
    const pid_t child = ::fork();
    if (child == 0) {
      agent::LocalJob local{.job = name, .nodes = 2, .processes_per_node = 2};
      local.rank_command = {
          std::getenv("GNN_RECORDING_RANK"),
          std::string(GNN_SAMPLES) + "/" + name + ".yaml",
          folder_.string(),
          "workers.nodes=2",
          "workers.processesPerNode=2",
          "training.device=CPU"
      };
      local.rank_command.insert(local.rank_command.end(), fields.begin(), fields.end());
      std::_Exit(agent::run_agents_locally(local, make_tcp_connector));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  // Runs the sample, checks that all ranks report the same bits, and returns the epochs' losses.
  std::vector<double> losses_of(const std::string& name, const std::vector<std::string>& fields) {
    EXPECT_EQ(run(name, fields), 0);
    const std::string told = read_file(folder_ / "rank-0");
    EXPECT_NE(told.find("parameters "), std::string::npos) << told;
    for (int rank = 1; rank < 4; ++rank)
      EXPECT_EQ(read_file(folder_ / ("rank-" + std::to_string(rank))), told) << "rank " << rank;
    std::vector<double> losses;
    std::istringstream lines(told);
    int64_t steps = 0;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string what;
      std::string place;
      std::string number;
      words >> what >> place >> number;
      if (what == "step") ++steps;
      if (what == "epoch") losses.push_back(std::strtod(number.c_str(), nullptr));
    }
    EXPECT_GT(steps, 0);
    return losses;
  }

  fs::path folder_;
};

TEST_F(TutorialTest, DglMultiGpuNodeClassification_GraphSageOnAGraphOfArxivsShape) {
  const auto losses = losses_of(
      "arxiv-sage",
      {"dataset.synthetic.scale=\"0.02\"",
       "training.batchSize=32",
       "training.epochs=3",
       "model.graphSage.hiddenChannels=32"}
  );
  ASSERT_EQ(losses.size(), 3U);
  EXPECT_LT(losses.back(), losses.front());
}

TEST_F(TutorialTest, DglMultiGpuGraphClassification_GinOnSmallGraphs) {
  const fs::path graphs = folder_ / "graphs.txt";
  testing::write_small_graphs(graphs, 101);  // ranks get different numbers of graphs
  const auto losses = losses_of(
      "imdb-gin",
      {"dataset.path=" + graphs.string(),
       "training.batchSize=4",
       "training.epochs=4",
       "model.gin.hiddenChannels=8"}
  );
  ASSERT_EQ(losses.size(), 4U);
  EXPECT_LT(losses.back(), losses.front());
}

TEST_F(TutorialTest, PygMultiNodeMultiGpu_GcnOnAFakeDatasetWithALocalGroupPerNode) {
  const auto losses = losses_of("fake-gcn", {"training.batchSize=32", "training.epochs=3"});
  ASSERT_EQ(losses.size(), 3U);
  EXPECT_LT(losses.back(), losses.front());
}

TEST_F(TutorialTest, PygMultiGpuVanilla_GraphSageOnAGraphOfRedditsShapeEvaluatedLayerByLayer) {
  const auto losses = losses_of(
      "reddit-sage",
      {R"(dataset={"format":"Synthetic","synthetic":{"shape":"Reddit","scale":"0.002"}})",
       "training.batchSize=32",
       "training.epochs=3",
       "training.evaluation.every=1",
       "model.graphSage.hiddenChannels=16"}
  );
  ASSERT_EQ(losses.size(), 3U);
  EXPECT_LT(losses.back(), losses.front());
}

// What the ranks do when their numbers of batches differ, and exact evaluation sharded over them.
class UnevenInputsTest : public TutorialTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(UnevenInputsTest, EndWithTheSameParametersOnEveryRank) {
  const auto losses = losses_of(
      "arxiv-sage",
      {"dataset.synthetic.scale=\"0.01\"",  // 909 training nodes: 228, 227, 227, 227
       "training.batchSize=227",
       "training.epochs=2",
       "training.evaluation={\"every\":1,\"mode\":\"LayerWise\"}",
       std::string("training.unevenInputs=") + GetParam(),
       "model.graphSage.hiddenChannels=16"}
  );
  EXPECT_EQ(losses.size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Choices, UnevenInputsTest, ::testing::Values("Shadow", "Join", "Drop"));

}  // namespace
}  // namespace gnn::app
