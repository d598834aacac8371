// Kills and stops gnn-worker's agents and ranks, and compares what their jobs end with to what a job
// without faults ends with.

#include "common/contract.h"
#include "tests/support/read_file.h"
#include "tests/support/small_graphs.h"
#include "tests/support/user_behavior.h"
#include "tests/worker/agent/running_job.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <vector>

namespace gnn {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using std::chrono::seconds;
using testing::children_of;
using testing::read_file;
using testing::RunningJobTest;
using testing::Variables;

constexpr int kEpochs = 10;
constexpr int kEverySteps = 3;

// What the jobs train, and how rows of embeddings change that a step does not touch.
constexpr const char* kGraphSage = "GraphSAGE";
constexpr const char* kPartitions = "Partitions";  // of a GraphSAGE's data, one on each node
constexpr const char* kGin = "GIN";
constexpr const char* kDense = "Dense";
constexpr const char* kLazy = "Lazy";

// What a job ends with: its last checkpoint and its result, without times and what only counts the
// work of one process.
struct Outcome {
  Json manifest;
  std::string tensors;
  Json result;
};

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

// Names ascend with attempt, round and step; the last folder may have none yet.
fs::path newest_manifest(const fs::path& checkpoints) {
  fs::path newest;
  for (const fs::path& folder : sorted_entries(checkpoints)) {
    if (!fs::is_directory(folder)) continue;
    for (const fs::path& file : sorted_entries(folder))
      if (file.extension() == ".manifest") newest = file;
  }
  return newest;
}

// Above the line with its checksum.
Json read_manifest(const fs::path& path) {
  const std::string text = read_file(path);
  return Json::parse(text.substr(0, text.rfind("xxh3-128:")));
}

// What a job trains: its task, data and model, and what of its training depends on them.
struct Model {
  std::string spec;
  int batch_size = 0;
  std::string training;
  std::string sharding = "Slice";
};

Model node_model() {
  return {
      .spec = R"(
  task: {type: NodeClassification}
  dataset: {format: Synthetic, synthetic: {shape: Arxiv, scale: "0.01", seed: 1}}
  model: {type: GraphSAGE, graphSage: {layers: 3, hiddenChannels: 64, dropout: "0.5"}}
  sampling: {fanout: [10, 10, 10]}
)",
      .batch_size = 64,
      .training = "evaluation: {parts: [Train, Validation, Test]}"
  };
}

Model partitions_model(const fs::path& data) {
  return {
      .spec = R"(
  task: {type: NodeClassification}
  dataset: {format: Native, path: )" +
              data.string() + R"(}
  model: {type: GraphSAGE, graphSage: {layers: 3, hiddenChannels: 64, dropout: "0.5"}}
  sampling: {fanout: [10, 10, 10]}
  placement: {topology: Partitioned, features: Partitioned, partitions: 2, cache: {rows: "0.1"}}
)",
      .batch_size = 64,
      .training = "evaluation: {mode: LayerWise, parts: [Train, Validation, Test]}",
      .sharding = "Owner"
  };
}

Model graph_model(const fs::path& folder) {
  const fs::path graphs = folder / "graphs.txt";
  testing::write_small_graphs(graphs, 901);
  return {
      .spec = R"(
  task: {type: GraphClassification}
  dataset:
    format: GIN
    nodeFeatures: DegreeOneHot
    split: {type: Random, train: "0.5", validation: "0.3", test: "0.2"}
    path: )" + graphs.string() +
              R"(
  model: {type: GIN, gin: {layers: 3, hiddenChannels: 32, mlpLayers: 2, dropout: "0.5"}}
)",
      .batch_size = 28,
      .training = "evaluation: {parts: [Train, Validation, Test]}"
  };
}

// Of 1,600 users and 1,200 items a batch reads few, so that most rows of their embeddings rest.
Model link_model(const fs::path& folder, const std::string& update) {
  const fs::path views = folder / "views";
  testing::write_user_behavior(
      views, {.users = 1600, .items = 1200, .views = 1801, .communities = 200, .loyalty = 1}
  );
  return {
      .spec = R"(
  task: {type: LinkPrediction, link: {source: user, relation: to, destination: item}}
  dataset:
    format: Taobao
    path: )" + views.string() +
              R"(
    addReverse: true
    split: {type: RandomLink, validation: "0.1", test: "0.1", negativeRatio: "1"}
    coOccurrence: {node: item, through: user, atLeast: 1, edges: Train}
  model: {type: BipartiteSAGE, bipartiteSage: {hiddenChannels: 16, outChannels: 16}}
  sampling: {fanout: [4, 2], negatives: {type: Binary, amount: "1"}, excludeSeedEdges: true}
)",
      .batch_size = 90,
      .training = "evaluation: {metric: AUC, parts: [Validation, Test]}, embeddings: {update: " +
                  update + "}"
  };
}

// Two nodes of one rank each, of unequal numbers of batches, train the model of the job.
class WorkerFaultTest : public RunningJobTest {
 protected:
  void SetUp() override {
    if (std::getenv("GNN_WORKER") == nullptr) GTEST_SKIP() << "built without gnn-worker";
  }

  void TearDown() override { fs::remove_all(data()); }

  void write_manifest(const std::string& name, const std::string& more_training = "") {
    if (name == kPartitions && !fs::exists(data())) make_partitions();
    const Model model = name == kGraphSage    ? node_model()
                        : name == kPartitions ? partitions_model(data() / "parts")
                        : name == kGin        ? graph_model(folder_)
                                              : link_model(folder_, name);
    std::ofstream(folder_ / "job.yaml")
        << "apiVersion: gnn.dev/v1alpha1\nkind: GNNJob\nmetadata: {name: small}\nspec:\n"
        << model.spec << "  training: {device: CPU, epochs: " << kEpochs
        << ", batchSize: " << model.batch_size
        << ", optimizer: {type: Adam, learningRate: \"0.003\"}, sharding: " << model.sharding
        << ", logSteps: 1, " << model.training << more_training << "}\n"
        << "  workers: {nodes: 2, processesPerNode: 1}\n"
        << "  checkpoint: {everyEpochs: 1, everySteps: " << kEverySteps
        << ", path: " << checkpoints().string() << "}\n";
  }

  void start_worker(const Variables& variables = {}) {
    start_program({std::getenv("GNN_WORKER"), "run", (folder_ / "job.yaml").string()}, variables);
  }

  fs::path checkpoints() const { return folder_ / "checkpoints"; }
  // Outlives a fresh folder.
  fs::path data() const { return folder_.string() + "-data"; }

  void run_data_command(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {std::getenv("GNN_WORKER"), "data"});
    start_program(arguments, {});
    ASSERT_EQ(finish(), contract::kExitDone) << output();
  }
  void make_partitions() {
    const std::string whole = (data() / "whole").string();
    run_data_command({"generate", "--shape=ogbn-arxiv", "--scale=0.01", "--output=" + whole});
    run_data_command(
        {"partition",
         "--input=" + whole,
         "--output=" + (data() / "parts").string(),
         "--parts=2",
         "--method=random",
         "--fanout=10,10,10",
         "--batch-size=64"}
    );
  }

  Outcome outcome() const {
    const fs::path path = newest_manifest(checkpoints());
    Outcome found{.manifest = read_manifest(path), .tensors = {}, .result = {}};
    found.tensors =
        read_file(path.parent_path() / found.manifest["data"]["file"].get<std::string>());
    for (Json& epoch : found.manifest["history"]["epochs"])
      for (const char* key : {"seconds", "items", "sampledEdges"}) epoch.erase(key);
    found.result = Json::parse(result_of(0));
    for (const char* key :
         {"jobUid",
          "attempt",
          "round",
          "checkpoint",
          "remoteBytesPerStep",
          "cacheHitRate",
          "expectedCacheHitRate"}) {
      found.result.erase(key);
    }
    return found;
  }

  // What the job ends with when nothing disturbs it; leaves a fresh folder.
  Outcome undisturbed(const std::string& model, const std::string& more_training = "") {
    static std::map<std::string, Outcome> known;
    const auto found = known.find(model + more_training);
    if (found != known.end()) return found->second;
    write_manifest(model, more_training);
    start_worker();
    EXPECT_EQ(finish(), contract::kExitDone) << output();
    EXPECT_EQ(outcome().manifest["epoch"], kEpochs - 1);
    EXPECT_EQ(outcome().manifest["history"]["epochs"].size(), kEpochs - 1U);
    EXPECT_TRUE(outcome().result.contains("testMetric")) << result_of(0);
    const Outcome expected = outcome();
    fresh_folder();
    return known.emplace(model + more_training, expected).first->second;
  }

  void expect_same(const Outcome& expected) const {
    const Outcome found = outcome();
    EXPECT_EQ(found.manifest["history"], expected.manifest["history"]);
    EXPECT_TRUE(found.manifest == expected.manifest) << found.manifest;
    EXPECT_TRUE(found.tensors == expected.tensors) << "parameters, buffers or optimizer state";
    EXPECT_EQ(found.result, expected.result);
  }

  static std::string line_of(int epoch, int step) {
    std::ostringstream line;
    line << "Epoch " << std::setw(5) << std::setfill('0') << epoch << " | Step " << std::setw(5)
         << step;
    return line.str();
  }

  // Whether the text comes after what was waited for before; the next wait looks behind it.
  bool wait_for(const std::string& text) {
    return wait_until([&] {
      const size_t at = output().find(text, seen_);
      if (at == std::string::npos) return false;
      seen_ = at + text.size();
      return true;
    });
  }

  // Between two rounds there is none for a moment.
  void kill_rank(int rank) const {
    std::vector<pid_t> ranks;
    ASSERT_TRUE(wait_until([&] {
      ranks = children_of(agent_of(rank));
      return !ranks.empty();
    })) << output();
    ::kill(ranks.front(), SIGKILL);
  }

  size_t seen_ = 0;
};

// Makes the first checkpoint of a round block while it is written, on every step.
void block_checkpoints_of(const fs::path& round, int steps) {
  fs::create_directory(round);
  for (int step = 1; step <= steps; ++step) {
    std::ostringstream name;
    name << "step-" << std::setw(12) << std::setfill('0') << step << ".manifest.tmp";
    ::mkfifo((round / name.str()).c_str(), 0600);
  }
}

bool has_data(const fs::path& folder) {
  return fs::is_directory(folder) && std::ranges::any_of(sorted_entries(folder), [](const auto& p) {
           return p.extension() == ".bin";
         });
}

class KilledWorkerTest : public WorkerFaultTest,
                         public ::testing::WithParamInterface<const char*> {};

TEST_P(KilledWorkerTest, EndsWithTheSameCheckpointAndMetricsWhereverItWasKilled) {
  const Outcome expected = undisturbed(GetParam());
  const int steps = expected.manifest["stepsPerEpoch"].get<int>();
  const int runs = std::getenv("GNN_FULL") != nullptr ? 10 : 1;
  std::mt19937 random(20);
  const auto any_step = [&] {
    return 1 + static_cast<int>(random() % static_cast<unsigned>(steps));
  };
  for (int run = 0; run < runs && !HasFailure(); ++run) {
    SCOPED_TRACE(run);
    fresh_folder();
    write_manifest(GetParam());
    seen_ = 0;
    start_worker();

    // A step. The round that follows can't finish its first checkpoint.
    ASSERT_TRUE(wait_for(line_of(1, any_step()))) << output();
    block_checkpoints_of(checkpoints() / "a000000-r0001", kEpochs * steps);
    kill_rank(1);

    // The write of a checkpoint: its data is there, its manifest is not.
    ASSERT_TRUE(wait_for("Resumed from")) << output();
    ASSERT_TRUE(wait_until([&] { return has_data(checkpoints() / "a000000-r0001"); })) << output();
    kill_rank(0);
    ASSERT_TRUE(wait_for("Resumed from")) << output();
    EXPECT_EQ(output().substr(seen_).find("a000000-r0001/"), std::string::npos) << output();

    // An evaluation: the next round resumes behind the epoch's last step.
    ASSERT_TRUE(wait_for(line_of(4, steps)) && wait_for("Validating...")) << output();
    kill_rank(static_cast<int>(random() % 2));
    ASSERT_TRUE(wait_for("Resumed from")) << output();
    EXPECT_TRUE(wait_for(": epoch 4, step " + std::to_string(steps))) << output();

    // An agent: the job ends, and is started again.
    ASSERT_TRUE(wait_for(line_of(6, any_step()))) << output();
    ::kill(agent_of(1), SIGKILL);
    EXPECT_NE(finish(), contract::kExitDone) << output();
    start_worker();
    ASSERT_TRUE(wait_for("Resumed from")) << output();
    ASSERT_TRUE(wait_for(line_of(8, any_step()))) << output();
    kill_rank(static_cast<int>(random() % 2));

    EXPECT_EQ(finish(), contract::kExitDone) << output();
    expect_same(expected);
    expect_no_orphan();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, KilledWorkerTest, ::testing::Values(kGraphSage, kPartitions, kGin, kDense, kLazy)
);

TEST_F(WorkerFaultTest, CtrlCResumesAndEndsWithTheSameCheckpointAndMetrics) {
  const Outcome expected = undisturbed(kGraphSage);
  write_manifest(kGraphSage);
  start_worker();
  ASSERT_TRUE(wait_for(line_of(4, 2))) << output();
  ::kill(job_, SIGINT);
  EXPECT_EQ(finish(), contract::kExitPreempted) << output();
  expect_no_orphan();
  start_worker();
  EXPECT_EQ(finish(), contract::kExitDone) << output();
  EXPECT_TRUE(wait_for("Resumed from")) << output();
  expect_same(expected);
}

// First the rank of node 1 stands still, with what it serves, then all of the node.
TEST_F(WorkerFaultTest, ANodeThatServesDataAndStandsStillIsNamedAndTheJobEndsWithTheSameBits) {
  const std::string limits = ", timeouts: {peerSeconds: 3}";
  const Outcome expected = undisturbed(kPartitions, limits);
  write_manifest(kPartitions, limits);
  const Variables heartbeat{{"GNN_HEARTBEAT_TIMEOUT", "6"}};
  start_worker(heartbeat);
  ASSERT_TRUE(wait_for(line_of(2, 1))) << output();
  ::kill(children_of(agent_of(1)).at(0), SIGSTOP);
  EXPECT_TRUE(wait_for("a data client is gone node=1 local_rank=0")) << output();
  EXPECT_TRUE(wait_for("has sent nothing for 3 s")) << output();
  EXPECT_TRUE(wait_for("culprit=\"node 1, rank 1")) << output();
  ASSERT_TRUE(wait_for("Resumed from")) << output();
  ASSERT_TRUE(wait_for(line_of(5, 1))) << output();
  const pid_t agent = agent_of(1);
  ::kill(children_of(agent).at(0), SIGSTOP);
  ::kill(agent, SIGSTOP);
  EXPECT_TRUE(wait_until([&] { return result_of(0).find("\"exitCode\":75") != std::string::npos; }))
      << output();
  EXPECT_NE(result_of(0).find("node 1"), std::string::npos) << result_of(0);
  ::kill(agent, SIGKILL);
  EXPECT_NE(finish(), -1) << output();
  expect_no_orphan();
  start_worker(heartbeat);
  EXPECT_EQ(finish(), contract::kExitDone) << output();
  EXPECT_TRUE(wait_for("Resumed from")) << output();
  expect_same(expected);
}

// Its parameter says how rows of embeddings change that a step does not touch.
class StoppedEmbeddingsTest : public WorkerFaultTest,
                              public ::testing::WithParamInterface<const char*> {
 protected:
  // Asks the job to stop after this step, waits for its end and starts it again.
  void stop_after(int epoch, int step) {
    ASSERT_TRUE(wait_for(line_of(epoch, step))) << output();
    ::kill(job_, SIGTERM);
    ASSERT_EQ(finish(), contract::kExitPreempted) << output();
    start_worker();
    ASSERT_TRUE(wait_for("Resumed from")) << output();
  }
};

// The steps at which it stops are no multiples of kEverySteps: these checkpoints are extra ones.
TEST_P(StoppedEmbeddingsTest, ResumeInTheMiddleOfAnEpochAndEndWithTheSameRows) {
  const Outcome expected = undisturbed(GetParam());
  write_manifest(GetParam());
  start_worker();
  for (const auto& [epoch, step] : {std::pair(1, 1), std::pair(4, 4)}) stop_after(epoch, step);
  EXPECT_EQ(finish(), contract::kExitDone) << output();
  expect_same(expected);
  expect_no_orphan();
}

// A stop between the batches of a step gives the step up: it is made whole after the restart.
TEST_P(StoppedEmbeddingsTest, OfTwoBatchesAStepResumeAndEndWithTheSameRows) {
  const std::string accumulated = ", gradientAccumulation: 2";
  const Outcome expected = undisturbed(GetParam(), accumulated);
  write_manifest(GetParam(), accumulated);
  start_worker();
  stop_after(1, 1);
  ASSERT_TRUE(wait_for(line_of(3, 2))) << output();
  kill_rank(1);
  ASSERT_TRUE(wait_for("Resumed from")) << output();
  stop_after(6, 4);
  EXPECT_EQ(finish(), contract::kExitDone) << output();
  expect_same(expected);
  expect_no_orphan();
}

INSTANTIATE_TEST_SUITE_P(Updates, StoppedEmbeddingsTest, ::testing::Values(kDense, kLazy));

TEST_F(WorkerFaultTest, AFileOfTheDataThatIsCutOffMeanwhileEndsTheJobWithItsName) {
  const fs::path data = folder_ / "small.gnn";
  run_data_command({"generate", "--shape=ogbn-arxiv", "--scale=0.01", "--output=" + data.string()});
  std::ofstream(folder_ / "job.yaml") << R"(
apiVersion: gnn.dev/v1alpha1
kind: GNNJob
metadata: {name: small}
spec:
  task: {type: NodeClassification}
  dataset: {format: Native, path: )" + data.string() +
                                             R"(}
  model: {type: GraphSAGE, graphSage: {layers: 1, hiddenChannels: 4}}
  sampling: {fanout: [2]}
  training: {device: CPU, epochs: 100000, batchSize: 64, optimizer: {type: Adam, learningRate: "0.003"}}
  workers: {nodes: 1, processesPerNode: 2}
)";
  start_worker();
  ASSERT_TRUE(wait_until([&] { return output().find("Epoch 00001") != std::string::npos; }))
      << output();
  fs::resize_file(data / "nodes.node.features.npy", 4096);
  EXPECT_EQ(finish(), contract::kExitData) << output();
  EXPECT_NE(output().find("nodes.node.features.npy: cannot be read at byte"), std::string::npos)
      << output();
  expect_no_orphan();
}

// The disk has room for one checkpoint and not for a second one.
TEST_F(WorkerFaultTest, AFullDiskEndsTheJobWithItsReason) {
  fs::create_directories(checkpoints());
  if (!testing::may_mount(checkpoints().string())) GTEST_SKIP() << "nothing can be mounted here";
  write_manifest(kGraphSage);
  start_worker({{"TEST_SMALL_DISK", checkpoints().string()}});
  EXPECT_EQ(finish(seconds(120)), contract::kExitOther) << output();
  EXPECT_NE(output().find("Resumed from"), std::string::npos) << "the first one was whole";
  for (int node = 0; node < 2; ++node) {
    EXPECT_NE(result_of(node).find("\"rank\":0"), std::string::npos) << result_of(node);
    EXPECT_NE(result_of(node).find("No space left on device"), std::string::npos)
        << result_of(node);
  }
  expect_no_orphan();
}

// As a claim that is mounted with readOnly: true.
TEST_F(WorkerFaultTest, AReadOnlyFolderForCheckpointsEndsTheJobWithItsName) {
  fs::create_directories(checkpoints());
  if (!testing::may_mount(checkpoints().string())) GTEST_SKIP() << "nothing can be mounted here";
  write_manifest(kGraphSage);
  start_worker({{"TEST_READ_ONLY_DISK", checkpoints().string()}});
  EXPECT_EQ(finish(seconds(120)), contract::kExitOther) << output();
  for (int node = 0; node < 2; ++node) {
    const std::string message = Json::parse(result_of(node))["message"].get<std::string>();
    EXPECT_NE(message.find("spec.checkpoint.path"), std::string::npos) << message;
    EXPECT_NE(message.find(checkpoints().string()), std::string::npos) << message;
    EXPECT_NE(message.find("Read-only file system"), std::string::npos) << message;
  }
  EXPECT_TRUE(fs::is_empty(checkpoints()));
  expect_no_orphan();
}

// An operator of one rank throws what LibTorch makes of a CUDA error.
TEST_F(WorkerFaultTest, AnErrorOfTheGpuInOneRankRestartsAllRanksOnce) {
  write_manifest(kGraphSage);
  start_worker(
      {{"LD_PRELOAD", std::getenv("GNN_FAILING_GPU")},
       {"FAILING_GPU_RANK", "1"},
       {"FAILING_GPU_ONCE", (folder_ / "failed").string()}}
  );
  EXPECT_EQ(finish(), contract::kExitDone) << output();
  EXPECT_TRUE(fs::exists(folder_ / "failed"));
  EXPECT_EQ(Json::parse(result_of(0))["round"], 1) << result_of(0);
  EXPECT_NE(output().find("CUDA error: uncorrectable ECC error"), std::string::npos) << output();
}

TEST_F(WorkerFaultTest, AnErrorOfTheGpuThatStaysEndsTheJobWithItsRankAndText) {
  write_manifest(kGraphSage);
  start_worker({{"LD_PRELOAD", std::getenv("GNN_FAILING_GPU")}, {"FAILING_GPU_RANK", "1"}});
  EXPECT_EQ(finish(), contract::kExitOther) << output();
  for (int node = 0; node < 2; ++node) {
    const std::string message = Json::parse(result_of(node))["message"].get<std::string>();
    EXPECT_NE(result_of(node).find("\"rank\":1"), std::string::npos) << result_of(node);
    const std::string error = "CUDA error: uncorrectable ECC error";
    EXPECT_NE(message.find(error), std::string::npos) << message;
    EXPECT_EQ(message.find(error), message.rfind(error)) << "once: " << message;
  }
}

// The same of a server is in servers_fault_test.cpp.
TEST_F(WorkerFaultTest, APodThatIsToldToStopBeforeItsLibrariesAreThereEndsWithTheCodeForIt) {
  for (const std::string command : {"agent", "prepare"}) {
    SCOPED_TRACE(command);
    fresh_folder();
    const fs::path job = folder_ / "job-pipe";  // `prepare` waits for whoever writes it
    ASSERT_EQ(::mkfifo(job.c_str(), 0600), 0);
    start_program(
        {std::getenv("GNN_WORKER"), command},
        {{"LD_PRELOAD", std::getenv("GNN_EARLY_STOP")},
         {"GNN_CONTRACT", std::to_string(contract::kVersion)},
         {"GNN_JOB", "early"},
         {"GNN_JOB_UID", "6f0c"},
         {"GNN_ATTEMPT", "0"},
         {"GNN_NODE_RANK", "1"},
         {"GNN_NNODES", "2"},
         {"GNN_NPROC_PER_NODE", "1"},
         {"GNN_CONFIG", job.string()},
         {"GNN_HTTP_ADDRESS", "127.0.0.1:0"},
         {"MASTER_ADDR", "127.0.0.1"},
         {"MASTER_PORT", "1"}}
    );
    EXPECT_EQ(finish(), contract::kExitPreempted) << output();
  }
}

TEST_F(WorkerFaultTest, AJobThatMayNotOpenEnoughFilesEndsWithTheLimit) {
  write_manifest(kGraphSage);
  const std::string manifest = (folder_ / "job.yaml").string();
  start_program(
      {"/bin/sh",
       "-c",
       "ulimit -n 24 && exec \"$0\" run \"$1\"",
       std::getenv("GNN_WORKER"),
       manifest},
      {}
  );
  EXPECT_EQ(finish(), contract::kExitConfiguration) << output();
  for (int node = 0; node < 2; ++node)
    EXPECT_NE(result_of(node).find("24 open files"), std::string::npos) << result_of(node);
  // Nothing has opened files before: there might be none left for the result.
  EXPECT_EQ(output().find("c10d"), std::string::npos) << output();
}

}  // namespace
}  // namespace gnn
