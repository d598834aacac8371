#include "tests/worker/sampling/random_graph.h"
#include "worker/loader/node_loader.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <memory>
#include <utility>
#include <vector>

namespace gnn::loader {
namespace {

constexpr int64_t kNodes = 2000;

std::vector<MiniBatch> read_batches(at::Device device) {
  const sampling::RandomGraph edges(kNodes, kNodes, 8, 1);
  const auto graph = graph::CscGraph::create(
                         at::tensor(edges.indptr, at::kLong),
                         at::tensor(edges.indices, at::kLong).to(at::kInt),
                         kNodes
  )
                         .value();
  auto fetcher =
      LocalFeatureFetcher::create(at::arange(kNodes * 6, at::kFloat).reshape({kNodes, 6})).value();
  NodeLoaderOptions options;
  options.sampling.fanout = {5, 3};
  options.items.batch_size = 64;
  options.items.shuffle = true;
  options.num_threads = 2;
  options.device = device;
  const auto loader = NodeLoader::create(
                          options,
                          graph,
                          at::arange(0, kNodes, 3, at::kLong),
                          std::make_shared<LocalFeatureFetcher>(std::move(fetcher)),
                          at::arange(kNodes, at::kLong) % 7
  )
                          .value();
  EXPECT_TRUE(loader->start_epoch(0, 0));
  std::vector<MiniBatch> batches;
  while (auto batch = loader->next().value()) batches.push_back(std::move(*batch));
  return batches;
}

void expect_copy(const at::Tensor& gpu, const at::Tensor& cpu) {
  ASSERT_TRUE(gpu.is_cuda());
  EXPECT_EQ(gpu.scalar_type(), cpu.scalar_type());
  EXPECT_TRUE(gpu.cpu().equal(cpu));
}

TEST(NodeLoader, GivesTheGpuTheBitsOfEveryBatchOnTheCpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const std::vector<MiniBatch> gpu = read_batches(at::Device(at::kCUDA, 0));
  const std::vector<MiniBatch> cpu = read_batches(at::kCPU);
  ASSERT_EQ(gpu.size(), cpu.size());
  for (size_t i = 0; i < gpu.size(); ++i) {
    SCOPED_TRACE(i);
    expect_copy(gpu[i].seeds, cpu[i].seeds);
    expect_copy(gpu[i].x, cpu[i].x);
    expect_copy(gpu[i].y, cpu[i].y);
    for (size_t layer = 0; layer < cpu[i].subgraph.blocks.size(); ++layer) {
      const graph::Block& there = gpu[i].subgraph.blocks[layer][0];
      const graph::Block& here = cpu[i].subgraph.blocks[layer][0];
      expect_copy(there.indptr, here.indptr);
      expect_copy(there.indices, here.indices);
      EXPECT_EQ(there.num_sources, here.num_sources);
    }
  }
}

}  // namespace
}  // namespace gnn::loader
