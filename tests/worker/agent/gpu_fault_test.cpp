// A kernel of a running job fails on its GPU.

#include "common/contract.h"
#include "tests/support/read_file.h"
#include "tests/support/reserved_port.h"
#include "tests/worker/agent/running_job.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace gnn {
namespace {

namespace fs = std::filesystem;

// An agent is told its store's port: nobody can hold it until then.
uint16_t port_that_was_free() {
  const auto reserved = testing::ReservedPort::reserve();
  return reserved ? reserved->number() : 0;
}

class GpuFaultTest : public testing::RunningJobTest {
 protected:
  void SetUp() override {
    const char* const has_cuda = std::getenv("GNN_WORKER_HAS_CUDA");
    if (std::getenv("GNN_WORKER") == nullptr || has_cuda == nullptr || *has_cuda != '1')
      GTEST_SKIP() << "built without CUDA: no gnn-worker that can use a GPU";
    if (!fs::exists("/dev/nvidia0")) GTEST_SKIP() << "no CUDA device";
  }
};

// The error stays with the process: only a new one can use the GPU again.
TEST_F(GpuFaultTest, AKernelThatFailsRestartsItsRankOnce) {
  std::ofstream(folder_ / "job.yaml") << R"(
apiVersion: gnn.dev/v1alpha1
kind: GNNJob
metadata: {name: small}
spec:
  task: {type: NodeClassification}
  dataset: {format: Synthetic, synthetic: {shape: Arxiv, scale: "0.01", seed: 1}}
  model: {type: GraphSAGE, graphSage: {layers: 2, hiddenChannels: 16}}
  sampling: {fanout: [5, 5]}
  training: {device: CUDA, epochs: 3, batchSize: 64, optimizer: {type: Adam, learningRate: "0.003"}}
  workers: {nodes: 1, processesPerNode: 1, gpusPerProcess: 1}
)";
  // As in a pod: `gnn-worker run` has no agent for a job of one rank, and one GPU is all there may be.
  start_program(
      {std::getenv("GNN_WORKER"), "agent"},
      {{"LD_PRELOAD", std::getenv("GNN_FAILING_GPU")},
       {"FAILING_GPU_RANK", "0"},
       {"FAILING_GPU_ONCE", (folder_ / "failed").string()},
       {"GNN_CONTRACT", std::to_string(contract::kVersion)},
       {"GNN_JOB", "small"},
       {"GNN_JOB_UID", "6f0c"},
       {"GNN_ATTEMPT", "0"},
       {"GNN_ROUNDS_LEFT", "1"},
       {"GNN_NODE_RANK", "0"},
       {"GNN_NNODES", "1"},
       {"GNN_NPROC_PER_NODE", "1"},
       {"GNN_CONFIG", (folder_ / "job.yaml").string()},
       {"GNN_TERMINATION_LOG", (folder_ / "result.0").string()},
       {"GNN_HTTP_ADDRESS", "127.0.0.1:0"},
       {"MASTER_ADDR", "127.0.0.1"},
       {"MASTER_PORT", std::to_string(port_that_was_free())}}
  );
  EXPECT_EQ(finish(std::chrono::seconds(180)), contract::kExitDone) << output();
  EXPECT_TRUE(fs::exists(folder_ / "failed"));
  EXPECT_EQ(nlohmann::json::parse(result_of(0))["round"], 1) << result_of(0);
  EXPECT_NE(output().find("CUDA error: device-side assert triggered"), std::string::npos)
      << output();
}

}  // namespace
}  // namespace gnn
