// Steps on a GPU, whose batches come from the loader.
#include "common/progress_bar.h"
#include "tests/worker/sampling/random_graph.h"
#include "tests/worker/training/batch_workload.h"
#include "worker/comm/ddp.h"
#include "worker/loader/device_rows.h"
#include "worker/loader/node_loader.h"
#include "worker/nn/models/graph_sage.h"
#include "worker/progress/console_sink.h"
#include "worker/training/optimizer.h"
#include "worker/training/step_runner.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>

#if GNN_TEST_CUDA_KERNELS
#include <c10/cuda/CUDAFunctions.h>
#endif

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

constexpr int64_t kNodes = 2000;
constexpr int64_t kWidth = 24;
constexpr int64_t kClasses = 7;

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

at::Tensor features() {
  return at::sin(at::arange(kNodes * kWidth, at::kFloat)).reshape({kNodes, kWidth});
}

std::shared_ptr<loader::FeatureFetcher> fetcher_of(const at::Tensor& rows, c10::Device device) {
  return std::make_shared<loader::LocalFeatureFetcher>(
      must(loader::LocalFeatureFetcher::create(rows, loader::memory_before(device)))
  );
}

std::shared_ptr<loader::FeatureFetcher> fetcher_on(c10::Device device, const at::Tensor& rows) {
  SilentProgressBar silent;
  return std::make_shared<loader::DeviceFeatureFetcher>(must(loader::DeviceRows::create(
      must(loader::gpu_row_device(device)),
      {.rows = rows, .num_nodes = kNodes, .hot_ids = at::arange(kNodes, at::kLong)},
      silent
  )));
}

enum class Rows { InHostMemory, OnTheDevice };

BatchWorkload::Batches batches_for(c10::Device device, Rows rows) {
  const sampling::RandomGraph edges(kNodes, kNodes, 8, 1);
  auto graph = must(graph::CscGraph::create(
      at::tensor(edges.indptr, at::kLong), at::tensor(edges.indices, at::kLong).to(at::kInt), kNodes
  ));
  auto sampler = must(
      sampling::NeighborSampler::create(sampling::NeighborSamplerOptions{.fanout = {5, 4}}, graph)
  );
  const bool on_device = rows == Rows::OnTheDevice;
  loader::NodeLoaderOptions options;
  options.items.batch_size = 64;
  options.items.shuffle = true;
  options.num_threads = 2;
  options.device = device;
  return must(loader::NodeLoader::create(
      options,
      loader::NodeBatchMaker::create(
          std::make_shared<sampling::LocalSampler>(std::move(sampler)),
          at::arange(kNodes, at::kLong),
          on_device ? fetcher_on(device, features()) : fetcher_of(features(), device),
          fetcher_of(at::arange(kNodes, at::kLong) % kClasses, device)
      )
  ));
}

// A model of its own, without dropout, whose draws differ between devices.
class Steps {
 public:
  Steps(c10::Device device, Rows rows)
      : workload_(batches_for(device, rows), make_model(device)),
        runner_(must(StepRunner::create(
            workload_,
            {.training = training_,
             .communicator = communicator_,
             .device = device,
             .stop = stop_,
             .progress = sink_},
            must(comm::DistributedDataParallel::create(
                comm::named_parameters_of(workload_.module()),
                comm::named_buffers_of(workload_.module()),
                communicator_
            ))
        ))) {
    EXPECT_TRUE(runner_.start_epoch({}));
  }

  comm::StepResult run() {
    progress::StepReport report;
    return must(runner_.run({.epoch = 0, .step = step_++}, sums_, report)).value();
  }

  [[nodiscard]] std::vector<at::Tensor> parameters() {
    std::vector<at::Tensor> copies;
    for (const at::Tensor& parameter : workload_.module().parameters())
      copies.push_back(parameter.detach().cpu());
    return copies;
  }
  [[nodiscard]] const progress::EpochSums& sums() const { return sums_; }

 private:
  static std::shared_ptr<nn::NodeModel> make_model(c10::Device device) {
    torch::manual_seed(3);
    nn::GraphSage model(nn::GraphSageOptions{
        .in_channels = kWidth,
        .hidden_channels = 16,
        .out_channels = kClasses,
        .layers = 2,
        .dropout = 0,
    });
    model->to(device);
    return model.ptr();
  }

  // Not Adam, which takes whole steps by gradients that are nothing but rounding.
  api::Training training_ = [] {
    api::Training training;
    training.optimizer = {.type = api::OptimizerType::SGD, .learning_rate = api::Decimal{"0.1"}};
    return training;
  }();
  std::shared_ptr<comm::Communicator> communicator_ = comm::make_single_communicator();
  StopToken stop_;
  progress::NullSink sink_;
  progress::EpochSums sums_;
  BatchWorkload workload_;
  StepRunner runner_;
  int64_t step_ = 0;
};

class StepOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GNN_TEST_CUDA_KERNELS)
      GTEST_SKIP() << "built without CUDA kernels (GNN_WITH_CUDA_KERNELS)";
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
  const c10::Device gpu_{c10::kCUDA, 0};
};

TEST_F(StepOnGpu, TrainsAsOnTheCpuWhereverTheFeaturesLie) {
  Steps cpu(c10::kCPU, Rows::InHostMemory);
  Steps host(gpu_, Rows::InHostMemory);
  Steps device(gpu_, Rows::OnTheDevice);
  for (int step = 0; step < 20; ++step) {
    const double expected = cpu.run().mean_loss;
    EXPECT_NEAR(host.run().mean_loss, expected, 1e-4);
    EXPECT_NEAR(device.run().mean_loss, expected, 1e-4);
  }
  EXPECT_EQ(host.sums().items, cpu.sums().items);
  EXPECT_NEAR(host.sums().loss, cpu.sums().loss, 1e-3 * cpu.sums().loss);
  EXPECT_EQ(host.sums().correct, device.sums().correct);
  const std::vector<at::Tensor> expected = cpu.parameters();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::allclose(host.parameters()[i], expected[i], 1e-3, 1e-5)) << i;
    EXPECT_TRUE(torch::equal(host.parameters()[i], device.parameters()[i])) << i;
  }
}

// Ten steps of an optimizer by gradients that are functions of the step.
std::vector<at::Tensor> optimized_on(c10::Device device) {
  std::vector<at::Tensor> parameters;
  for (const int64_t size : {5, 300}) {
    at::Tensor values = at::cos(at::arange(size, at::kDouble)).to(device);
    parameters.push_back(values.requires_grad_(true));
  }
  const auto optimizer = make_optimizer(
      {.learning_rate = api::Decimal{"0.05"}, .weight_decay = api::Decimal{"0.1"}}, parameters
  );
  for (int64_t step = 0; step < 10; ++step) {
    for (at::Tensor& parameter : parameters) {
      const at::Tensor gradient =
          at::sin(at::arange(step, step + parameter.numel(), at::kDouble)).to(device);
      parameter.mutable_grad() = gradient;
    }
    // As a parameter that some steps leave out.
    if (step == 3) parameters[0].mutable_grad().reset();
    optimizer->step();
  }
  for (at::Tensor& parameter : parameters) parameter = parameter.detach().cpu();
  return parameters;
}

TEST_F(StepOnGpu, AdamIsTorchs) {
  const std::vector<at::Tensor> cpu = optimized_on(c10::kCPU);
  const std::vector<at::Tensor> gpu = optimized_on(gpu_);
  for (size_t i = 0; i < cpu.size(); ++i) EXPECT_TRUE(torch::allclose(gpu[i], cpu[i], 1e-6, 1e-8));
}

#if GNN_TEST_CUDA_KERNELS

// Counts what LibTorch warns of while it is told to warn of each wait for the device.
class CountWaits final : public c10::WarningHandler {
 public:
  CountWaits() : guard_(this) {
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_WARN);
  }
  ~CountWaits() override {
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
  }
  void process(const c10::Warning& warning) override { waits.push_back(warning.msg()); }

  std::vector<std::string> waits;

 private:
  c10::WarningUtils::WarningHandlerGuard guard_;
};

TEST_F(StepOnGpu, WaitsForTheDeviceOnce) {
  for (const Rows rows : {Rows::InHostMemory, Rows::OnTheDevice}) {
    Steps steps(gpu_, rows);
    for (int warm_up = 0; warm_up < 3; ++warm_up) steps.run();
    CountWaits count;
    for (int step = 0; step < 5; ++step) steps.run();
    EXPECT_EQ(count.waits.size(), 5U) << (count.waits.empty() ? "" : count.waits.back());
  }
}

#endif

}  // namespace
}  // namespace gnn::training
