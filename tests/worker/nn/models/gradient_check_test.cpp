#include "worker/nn/models/gradient_check.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace gnn::nn {
namespace {

// Reads `used` alone; the second part of `deep` is forgotten.
struct Forgetful : torch::nn::Module {
  Forgetful() {
    used = register_module("used", torch::nn::Linear(3, 2));
    deep = register_module("deep", std::make_shared<Deep>());
  }
  struct Deep : torch::nn::Module {
    Deep() {
      first = register_module("first", torch::nn::Linear(2, 2));
      second = register_module("second", torch::nn::Linear(2, 2));
    }
    torch::nn::Linear first{nullptr};
    torch::nn::Linear second{nullptr};
  };
  at::Tensor loss(bool with_second) {
    const at::Tensor h = deep->first->forward(used->forward(torch::ones({4, 3})));
    return (with_second ? deep->second->forward(h) : h).sum();
  }

  torch::nn::Linear used{nullptr};
  std::shared_ptr<Deep> deep;
};

TEST(GradientCheck, NamesTheParametersThatGetNone) {
  Forgetful model;
  const Status checked = check_gradients(model, model.loss(/*with_second=*/false));
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, ErrorKind::Configuration);
  const std::string& message = checked.error().message;
  EXPECT_NE(message.find("deep.second.weight, deep.second.bias"), std::string::npos) << message;
  EXPECT_EQ(message.find("deep.first"), std::string::npos) << message;
}

TEST(GradientCheck, AcceptsAModelThatUsesEachAndLeavesItsGradients) {
  Forgetful model;
  const at::Tensor before = torch::ones({2, 3});
  model.used->weight.mutable_grad() = before;
  EXPECT_TRUE(check_gradients(model, model.loss(/*with_second=*/true)));
  EXPECT_TRUE(torch::equal(model.used->weight.grad(), torch::ones({2, 3})));
  EXPECT_FALSE(model.deep->second->weight.grad().defined());
}

TEST(GradientCheck, CountsAGradientOfZero) {
  Forgetful model;
  EXPECT_TRUE(check_gradients(model, model.loss(/*with_second=*/true) * 0));
}

TEST(GradientCheck, SkipsParametersThatAreFrozen) {
  Forgetful model;
  for (at::Tensor& parameter : model.deep->second->parameters()) parameter.requires_grad_(false);
  EXPECT_TRUE(check_gradients(model, model.loss(/*with_second=*/false)));
}

TEST(GradientCheck, NamesAllIfTheLossDependsOnNone) {
  Forgetful model;
  const Status checked = check_gradients(model, torch::ones({}));
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find("used.weight"), std::string::npos);
}

}  // namespace
}  // namespace gnn::nn
