#include "worker/checkpoint/state_capture.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>

namespace gnn::checkpoint {
namespace {

using ::testing::HasSubstr;

torch::nn::Sequential make_model() {
  return torch::nn::Sequential(
      torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3), torch::nn::Linear(3, 2)
  );
}

using MakeOptimizer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

struct OptimizerCase {
  const char* name;
  MakeOptimizer make;
};

class CaptureOf : public ::testing::TestWithParam<OptimizerCase> {};

INSTANTIATE_TEST_SUITE_P(
    Optimizers,
    CaptureOf,
    ::testing::Values(
        OptimizerCase{
            "Adam",
            [](auto parameters) {
              return std::make_unique<torch::optim::Adam>(
                  parameters, torch::optim::AdamOptions(0.1).weight_decay(0.01)
              );
            }
        },
        OptimizerCase{
            "AmsGrad",
            [](auto parameters) {
              return std::make_unique<torch::optim::Adam>(
                  parameters, torch::optim::AdamOptions(0.1).amsgrad(true)
              );
            }
        },
        OptimizerCase{
            "AdamW",
            [](auto parameters) { return std::make_unique<torch::optim::AdamW>(parameters); }
        },
        OptimizerCase{
            "Momentum",
            [](auto parameters) {
              return std::make_unique<torch::optim::SGD>(
                  parameters, torch::optim::SGDOptions(0.1).momentum(0.9)
              );
            }
        },
        OptimizerCase{
            "PlainSgd",
            [](auto parameters) {
              return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.1));
            }
        }
    ),
    [](const auto& each) { return each.param.name; }
);

// Draws its batches from the default generator.
void train(torch::nn::Sequential& model, torch::optim::Optimizer& optimizer, int steps) {
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    model->forward(torch::randn({8, 4})).pow(2).sum().backward();
    optimizer.step();
  }
}

TEST_P(CaptureOf, AResumedRunHasTheBitsOfAnUninterruptedOne) {
  torch::manual_seed(1);
  auto model = make_model();
  const auto optimizer = GetParam().make(model->parameters());
  train(model, *optimizer, 3);
  const auto saved_model = capture_module(*model);
  const auto saved_optimizer = capture_optimizer(*optimizer);
  ASSERT_TRUE(saved_optimizer);
  torch::manual_seed(2);
  train(model, *optimizer, 3);

  torch::manual_seed(99);
  auto resumed = make_model();
  const auto resumed_optimizer = GetParam().make(resumed->parameters());
  train(resumed, *resumed_optimizer, 1);  // state that must vanish
  ASSERT_TRUE(restore_module(*resumed, saved_model));
  ASSERT_TRUE(restore_optimizer(*resumed, *resumed_optimizer, *saved_optimizer));
  torch::manual_seed(2);
  train(resumed, *resumed_optimizer, 3);

  const auto expected = capture_module(*model);
  const auto found = capture_module(*resumed);
  ASSERT_EQ(expected.size(), 9U);  // with the norm's three buffers
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::equal(expected[i].tensor, found[i].tensor)) << expected[i].name;
  }
}

TEST(StateCapture, CopiesTheValues) {
  auto model = make_model();
  const auto saved = capture_module(*model);
  const at::Tensor before = saved[0].tensor.clone();
  {
    const torch::NoGradGuard no_grad;
    for (at::Tensor parameter : model->parameters()) parameter.fill_(7);
  }
  EXPECT_TRUE(torch::equal(saved[0].tensor, before));
}

TEST(StateCapture, FindsWhatIsNotFiniteInParametersBuffersAndOptimizerState) {
  const at::Tensor infinity = torch::tensor(std::numeric_limits<float>::infinity());
  auto model = make_model();
  torch::optim::Adam optimizer(model->parameters());
  train(model, optimizer, 1);
  const auto found = [&] { return find_not_finite(*model, optimizer).value(); };
  ASSERT_EQ(found(), std::nullopt);
  auto& state = static_cast<torch::optim::AdamParamState&>(
      *optimizer.state().at(model->parameters()[1].unsafeGetTensorImpl())
  );
  const torch::NoGradGuard no_grad;
  state.exp_avg_sq()[0] = infinity;
  EXPECT_EQ(found(), "exp_avg_sq of 0.bias");
  model->named_buffers()["1.running_var"][0] = infinity;
  EXPECT_EQ(found(), "1.running_var");
  model->parameters()[0][0][0] = infinity;
  EXPECT_EQ(found(), "0.weight");
}

TEST(StateCapture, RefusesAnotherModelAndChangesNothing) {
  auto model = make_model();
  const auto before = capture_module(*model);
  const auto expect_refused = [&](std::vector<CheckpointTensor> tensors, const char* word) {
    for (CheckpointTensor& entry : tensors) {
      if (entry.tensor.is_floating_point()) entry.tensor = entry.tensor + 1;
    }
    const Status status = restore_module(*model, tensors);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::Configuration);
    EXPECT_THAT(status.error().message, HasSubstr(word));
    EXPECT_TRUE(torch::equal(before[0].tensor, model->parameters()[0]));
  };
  auto missing = before;
  missing.pop_back();
  expect_refused(missing, "is missing");
  auto unknown = before;
  unknown.push_back({"extra", torch::ones({1})});
  expect_refused(unknown, "extra");
  auto reshaped = before;
  reshaped[2].tensor = torch::ones({5});
  expect_refused(reshaped, before[2].name.c_str());
  auto retyped = before;
  retyped[1].tensor = retyped[1].tensor.to(at::kDouble);
  expect_refused(retyped, before[1].name.c_str());
}

TEST(StateCapture, RefusesTheStateOfAnotherOptimizer) {
  auto model = make_model();
  torch::optim::Adam adam(model->parameters());
  train(model, adam, 1);
  const auto saved = capture_optimizer(adam);
  ASSERT_TRUE(saved);
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  EXPECT_FALSE(restore_optimizer(*model, sgd, *saved));
  auto cut = *saved;
  cut.pop_back();
  EXPECT_THAT(
      restore_optimizer(*model, adam, cut).error().message,
      HasSubstr("exp_avg_sq of 2.bias is missing")
  );
  auto reshaped = *saved;
  reshaped[1].tensor = torch::ones({5});
  EXPECT_THAT(
      restore_optimizer(*model, adam, reshaped).error().message,
      HasSubstr("exp_avg of 0.weight: expected Float [")
  );
  auto more = *saved;
  more.push_back({"99/step", torch::tensor(1, torch::kInt64)});
  EXPECT_FALSE(restore_optimizer(*model, adam, more));
  torch::optim::RMSprop other(model->parameters());
  EXPECT_FALSE(capture_optimizer(other));
}

}  // namespace
}  // namespace gnn::checkpoint
