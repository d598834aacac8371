// Data-parallel training over NCCL, with one GPU for each rank, against the same over Gloo.
#include "tests/worker/comm/in_process_ranks.h"
#include "worker/comm/ddp.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include <vector>

namespace gnn::comm {
namespace {

constexpr int64_t kInputs = 6;
constexpr int64_t kOutputs = 3;

// Values of a fixed stream, as tests on the CPU use: no generator of either device.
at::Tensor stream_of(std::vector<int64_t> shape, int64_t start) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::sin(at::arange(start, start + count, at::kDouble) * 12.9898).reshape(shape);
}

torch::nn::Sequential make_net(c10::Device device, int64_t rank) {
  torch::nn::Sequential net(
      torch::nn::Linear(kInputs, 8), torch::nn::BatchNorm1d(8), torch::nn::Linear(8, kOutputs)
  );
  const at::NoGradGuard no_grad;
  // Rank 0's values count; those of the others are overwritten.
  for (auto& parameter : net->parameters())
    parameter.copy_(stream_of(parameter.sizes().vec(), 100 * rank));
  net->to(device, at::kDouble);
  return net;
}

// Rank r takes 4 + r items of each step, the last rank none of the odd ones.
std::vector<at::Tensor> train_rank(
    const std::shared_ptr<Communicator>& communicator, bool use_cuda
) {
  const int64_t rank = communicator->rank();
  const int64_t world = communicator->world_size();
  const c10::Device device = device_of_rank(use_cuda, rank);
  auto net = make_net(device, rank);
  auto ddp = require(DistributedDataParallel::create(
      named_parameters_of(*net),
      named_buffers_of(*net),
      communicator,
      {.average = GradientAverage::BatchSize}
  ));
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(0.01));
  for (int64_t step = 0; step < 10; ++step) {
    ddp.zero_grad();
    require(ddp.start_step());
    if (world > 1 && rank == world - 1 && step % 2 == 1) {
      require(ddp.shadow_step());
    } else {
      const int64_t items = 4 + rank;
      const at::Tensor x = stream_of({items, kInputs}, 1000 * step + 17 * rank).to(device);
      const at::Tensor y = at::remainder(at::arange(items) + step, kOutputs).to(device);
      const at::Tensor loss = at::cross_entropy_loss(net->forward(x), y);
      require(ddp.backward(loss, {.batch_size = static_cast<double>(items)}));
    }
    optimizer.step();
  }
  std::vector<at::Tensor> tensors;
  for (const at::Tensor& parameter : net->parameters()) tensors.push_back(parameter.detach().cpu());
  return tensors;
}

std::vector<std::vector<at::Tensor>> train_ranks_on(bool use_cuda, int64_t world) {
  std::vector<std::vector<at::Tensor>> of_ranks(static_cast<size_t>(world));
  run_ranks_on(use_cuda, world, [&](const std::shared_ptr<Communicator>& communicator) {
    of_ranks[static_cast<size_t>(communicator->rank())] = train_rank(communicator, use_cuda);
  });
  return of_ranks;
}

TEST(Nccl, TrainsToTheParametersOfGlooWithAnyNumberOfGpus) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const auto gpus = static_cast<int64_t>(torch::cuda::device_count());
  for (int64_t world = 1; world <= gpus; ++world) {
    SCOPED_TRACE(world);
    const auto gloo = train_ranks_on(false, world);
    const auto nccl = train_ranks_on(true, world);
    for (const auto& tensors : nccl) {
      ASSERT_EQ(tensors.size(), gloo[0].size());
      for (size_t i = 0; i < tensors.size(); ++i)
        EXPECT_TRUE(torch::allclose(tensors[i], gloo[0][i], 0, 1e-6)) << "parameter " << i;
    }
  }
}

// NCCL's wait() does not block the host: what waits is the reading of what the ranks agreed on.
TEST(Nccl, ARankCountsAsWaitingWhileAnotherHasNoGradientsYet) {
  if (!torch::cuda::is_available() || torch::cuda::device_count() < 2)
    GTEST_SKIP() << "fewer than two CUDA devices";
  ActivityOfRank0 first;
  run_ranks_on(true, 2, [&](const std::shared_ptr<Communicator>& communicator) {
    const int64_t rank = communicator->rank();
    const c10::Device device = device_of_rank(true, rank);
    auto net = make_net(device, rank);
    auto ddp = require(DistributedDataParallel::create(
        named_parameters_of(*net), named_buffers_of(*net), communicator, {}
    ));
    require(ddp.start_step());
    if (rank == 0) first.show(communicator->activity());
    EXPECT_TRUE(rank == 0 || first.wait_until_it_waits());
    const at::Tensor x = stream_of({4, kInputs}, 0).to(device);
    const at::Tensor loss =
        at::cross_entropy_loss(net->forward(x), at::zeros({4}, at::kLong).to(device));
    require(ddp.backward(loss));
  });
}

}  // namespace
}  // namespace gnn::comm
