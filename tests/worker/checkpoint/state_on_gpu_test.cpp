// A checkpoint of a GPU's training goes on on the CPU, and the other way round.
#include "worker/checkpoint/state_capture.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

namespace gnn::checkpoint {
namespace {

struct DeviceTraining {
  explicit DeviceTraining(c10::Device on) : device(on) { net->to(device, at::kDouble); }

  void train(int64_t first_step, int64_t steps) {
    for (int64_t step = first_step; step < first_step + steps; ++step) {
      const at::Tensor x =
          at::sin(at::arange(step, step + 32, at::kDouble) * 12.9898).reshape({8, 4}).to(device);
      optimizer.zero_grad();
      net->forward(x).square().sum().backward();
      optimizer.step();
    }
  }

  c10::Device device;
  // Without a bias before the normalisation: its gradient is nothing but rounding, which Adam scales up.
  torch::nn::Sequential net{
      torch::nn::Linear(torch::nn::LinearOptions(4, 3).bias(false)),
      torch::nn::BatchNorm1d(3),
      torch::nn::Linear(3, 2)
  };
  torch::optim::Adam optimizer{net->parameters(), torch::optim::AdamOptions(0.01)};
};

void expect_resumes_on(c10::Device from, c10::Device to) {
  DeviceTraining whole(from);
  DeviceTraining resumed(to);
  whole.train(0, 5);
  ASSERT_TRUE(restore_module(*resumed.net, capture_module(*whole.net)));
  const auto state = capture_optimizer(whole.optimizer);
  ASSERT_TRUE(state.has_value());
  ASSERT_TRUE(restore_optimizer(*resumed.net, resumed.optimizer, *state));
  whole.train(5, 5);
  resumed.train(5, 5);
  const auto expected = capture_module(*whole.net);
  const auto found = capture_module(*resumed.net);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(torch::allclose(found[i].tensor, expected[i].tensor, 1e-9, 1e-9)) << found[i].name;
  for (const at::Tensor& parameter : resumed.net->parameters())
    EXPECT_EQ(parameter.device().type(), to.type());
}

TEST(StateCapture, OfAGpuResumesOnTheCpuAndTheReverse) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const c10::Device gpu(c10::kCUDA, 0);
  expect_resumes_on(gpu, c10::kCPU);
  expect_resumes_on(c10::kCPU, gpu);
}

}  // namespace
}  // namespace gnn::checkpoint
