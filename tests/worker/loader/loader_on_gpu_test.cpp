#include "tests/worker/sampling/random_graph.h"
#include "worker/loader/device_rows.h"
#include "worker/loader/node_loader.h"
#include "worker/loader/on_host.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <memory>
#include <utility>
#include <vector>

namespace gnn::loader {
namespace {

constexpr int64_t kNodes = 2000;

// Of a graph whose nodes have `width` features; every `seed_step`th of them is a seed.
std::unique_ptr<NodeLoader> make_loader(
    NodeLoaderOptions options, int64_t width, int64_t seed_step, HostMemory memory
) {
  options.items.shuffle = true;
  const sampling::RandomGraph edges(kNodes, kNodes, 8, 1);
  const auto graph = graph::CscGraph::create(
                         at::tensor(edges.indptr, at::kLong),
                         at::tensor(edges.indices, at::kLong).to(at::kInt),
                         kNodes
  )
                         .value();
  const at::Tensor rows = at::arange(kNodes * width, at::kFloat).reshape({kNodes, width});
  auto fetcher = LocalFeatureFetcher::create(rows, memory).value();
  return NodeLoader::create(
             options,
             graph,
             at::arange(0, kNodes, seed_step, at::kLong),
             std::make_shared<LocalFeatureFetcher>(std::move(fetcher)),
             at::arange(kNodes, at::kLong) % 7
  )
      .value();
}

std::vector<MiniBatch> read_batches(at::Device device) {
  NodeLoaderOptions options;
  options.sampling.fanout = {5, 3};
  options.items.batch_size = 64;
  options.num_threads = 2;
  options.device = device;
  const auto loader = make_loader(options, 6, 3, HostMemory::Pageable);
  EXPECT_TRUE(loader->start_epoch(0, 0));
  std::vector<MiniBatch> batches;
  while (auto batch = loader->next().value()) batches.push_back(std::move(*batch));
  return batches;
}

// Rows so wide that the copies of a batch, some 40 MB, take longer than the host needs to queue them.
std::unique_ptr<NodeLoader> wide_loader(at::Device device, int64_t threads) {
  NodeLoaderOptions options;
  options.sampling.fanout = {8, 8};
  options.items.batch_size = 40;
  options.num_threads = threads;
  options.device = device;
  return make_loader(options, 8192, 4, memory_before(device));
}

// What a model would read of a batch.
std::vector<at::Tensor> tensors_of(const MiniBatch& batch) {
  std::vector<at::Tensor> tensors{batch.seeds, batch.x, batch.y};
  for (const auto& layer : batch.subgraph.blocks) {
    tensors.push_back(layer[0].indptr);
    tensors.push_back(layer[0].indices);
  }
  return tensors;
}

void expect_copy(const at::Tensor& gpu, const at::Tensor& cpu) {
  ASSERT_TRUE(gpu.is_cuda());
  EXPECT_EQ(gpu.scalar_type(), cpu.scalar_type());
  EXPECT_TRUE(gpu.cpu().equal(cpu));
}

TEST(OnHost, GivesATensorsBitsInPinnedMemory) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const at::Tensor ids = at::arange(100'000);
  const at::Tensor back = on_host(ids.to(at::Device(at::kCUDA, 0)));
  EXPECT_TRUE(back.equal(ids));
  EXPECT_TRUE(back.is_pinned());
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

// The reader queues work before and after it takes a batch, and drops the batch while the device is
// far behind: copies must have ended before the batch is read, and must not go where it lay meanwhile.
TEST(NodeLoader, BatchesStayWholeWhileCopiesRunBesideWhatReadsThem) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const at::Device gpu(at::kCUDA, 0);
  const at::Tensor matrix = at::ones({4096, 4096}, at::device(gpu));
  for (const int64_t threads : {0, 3}) {
    SCOPED_TRACE(threads);
    const auto on_gpu = wide_loader(gpu, threads);
    const auto on_cpu = wide_loader(at::kCPU, 1);
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      ASSERT_TRUE(on_gpu->start_epoch(epoch));
      ASSERT_TRUE(on_cpu->start_epoch(epoch));
      std::vector<std::vector<at::Tensor>> read;
      while (auto batch = on_gpu->next().value()) {
        if (read.size() % 2 == 0) at::mm(matrix, matrix);
        std::vector<at::Tensor> copies;
        for (const at::Tensor& tensor : tensors_of(*batch)) copies.push_back(tensor.clone());
        read.push_back(std::move(copies));
        // Every other batch meets a device without work, which reads it at once.
        if (read.size() % 2 == 0) torch::cuda::synchronize();
      }
      for (const std::vector<at::Tensor>& copies : read) {
        const auto batch = on_cpu->next().value();
        ASSERT_TRUE(batch.has_value());
        const std::vector<at::Tensor> expected = tensors_of(*batch);
        for (size_t i = 0; i < expected.size(); ++i)
          ASSERT_TRUE(copies[i].cpu().equal(expected[i])) << "tensor " << i;
      }
    }
  }
}

// Rows that the GPU gathers by itself while it computes, from ids on the host.
TEST(DeviceRows, GiveTheGpuTheHostsBatches) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const at::Device gpu(at::kCUDA, 0);
  const at::Tensor matrix = at::ones({2048, 2048}, at::device(gpu));
  const sampling::RandomGraph edges(kNodes, kNodes, 8, 1);
  const auto graph =
      graph::CscGraph::create(
          at::tensor(edges.indptr, at::kLong), at::tensor(edges.indices, at::kLong), kNodes
      )
          .value();
  const at::Tensor rows = at::randn({kNodes, 4096});
  NodeLoaderOptions options;
  options.sampling.fanout = {8, 8};
  options.items.batch_size = 40;
  options.num_threads = 3;
  const auto load = [&](at::Device device, std::shared_ptr<FeatureFetcher> features) {
    NodeLoaderOptions mine = options;
    mine.device = device;
    auto loader = NodeLoader::create(
                      mine,
                      graph,
                      at::arange(0, kNodes, 4, at::kLong),
                      std::move(features),
                      at::arange(kNodes, at::kLong)
    )
                      .value();
    EXPECT_TRUE(loader->start_epoch(0));
    return loader;
  };
  auto device = gpu_row_device(gpu);
  if (!device) GTEST_SKIP() << device.error().message;
  SilentProgressBar silent;
  for (const RowType type : {RowType::AsStored, RowType::BFloat16}) {
    for (const int64_t hot : {int64_t{0}, kNodes / 5, kNodes}) {
      const auto device_rows = DeviceRows::create(
                                   *device,
                                   {.rows = rows,
                                    .num_nodes = kNodes,
                                    .type = type,
                                    .hot_ids = at::arange(kNodes - hot, kNodes, at::kLong)},
                                   silent
      )
                                   .value();
      const auto on_gpu = load(gpu, std::make_shared<DeviceFeatureFetcher>(device_rows));
      const auto on_cpu = load(
          at::kCPU,
          std::make_shared<LocalFeatureFetcher>(
              LocalFeatureFetcher::create(rows, HostMemory::Pageable, type).value()
          )
      );
      while (auto batch = on_gpu->next().value()) {
        at::mm(matrix, matrix);
        const at::Tensor read = batch->x.clone();
        const auto expected = on_cpu->next().value();
        ASSERT_TRUE(expected.has_value());
        expect_copy(read, expected->x);
        // The same from ids on the GPU.
        expect_copy(
            device_rows->gather(expected->subgraph.node_ids[0].to(gpu)).value(), expected->x
        );
      }
      const auto bad = device_rows->gather(at::tensor({5, -1}, at::kLong).to(gpu));
      ASSERT_FALSE(bad);
      EXPECT_EQ(bad.error().kind, ErrorKind::Data);
    }
  }
}

TEST(LocalFeatureFetcher, GathersIntoPinnedMemoryForAGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const at::Tensor rows = at::arange(60, at::kFloat).reshape({20, 3});
  const auto fetcher =
      LocalFeatureFetcher::create(rows, memory_before(at::Device(at::kCUDA, 0))).value();
  const at::Tensor ids = at::tensor({7, 0, 7}, at::kLong);
  const at::Tensor gathered = fetcher.fetch(ids).value();
  EXPECT_TRUE(gathered.is_pinned());
  EXPECT_TRUE(gathered.equal(rows.index_select(0, ids)));
}

}  // namespace
}  // namespace gnn::loader
