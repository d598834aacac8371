#include "worker/nn/functional/relu_dropout.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

namespace gnn::nn {
namespace {

TEST(ReluDropout, OutsideTrainingIsRelu) {
  const at::Tensor x = torch::tensor({-1.0, 0.0, 2.0});
  EXPECT_TRUE(torch::equal(relu_dropout(x.clone(), 0.5, false), torch::tensor({0.0, 0.0, 2.0})));
  EXPECT_TRUE(torch::equal(relu_dropout(x.clone(), 0.0, true), torch::tensor({0.0, 0.0, 2.0})));
}

TEST(ReluDropout, KeepsTheStatedShareAndScalesIt) {
  torch::manual_seed(1);
  constexpr int64_t kSize = 1'000'000;
  for (const double p : {0.1, 0.5, 0.9}) {
    const at::Tensor y = relu_dropout(torch::ones({kSize}), p, true);
    const auto kept = y.count_nonzero().item<int64_t>();
    // Five standard deviations of a binomial.
    EXPECT_NEAR(static_cast<double>(kept), kSize * (1 - p), 5 * std::sqrt(kSize * p * (1 - p)));
    EXPECT_TRUE(torch::allclose(y.max(), torch::tensor(1 / (1 - p)).to(at::kFloat)));
  }
}

TEST(ReluDropout, DrawsAreIndependentOfTheirNeighbours) {
  torch::manual_seed(2);
  constexpr int64_t kSize = 1 << 20;
  const at::Tensor kept = relu_dropout(torch::ones({kSize}), 0.5, true).gt(0).to(at::kDouble) - 0.5;
  // Correlation at lags inside a chunk, across chunks and at a row's width: each has deviation
  // 1/sqrt(n).
  for (const int64_t lag : {1, 2, 16, 64, 256, 4095, 4096, 4097}) {
    const double correlation =
        (kept.narrow(0, 0, kSize - lag) * kept.narrow(0, lag, kSize - lag)).mean().item<double>() *
        4;
    EXPECT_LT(std::abs(correlation), 5.0 / std::sqrt(kSize)) << "lag " << lag;
  }
}

TEST(ReluDropout, IsAFunctionOfTheSeedForAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  const auto run = [](int threads) {
    at::set_num_threads(threads);
    torch::manual_seed(7);
    return relu_dropout(torch::ones({300'001}), 0.5, true);
  };
  const at::Tensor first = run(1);
  EXPECT_TRUE(torch::equal(first, run(2)));
  EXPECT_TRUE(torch::equal(first, run(8)));
  at::set_num_threads(before);
  EXPECT_FALSE(torch::equal(first, relu_dropout(torch::ones({300'001}), 0.5, true)));
}

TEST(ReluDropout, GradientFollowsWhatWasKept) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    torch::manual_seed(3);
    const at::Tensor x = torch::randn({10'000}, type).requires_grad_();
    const at::Tensor y = relu_dropout(x * 1, 0.25, true);
    const at::Tensor weights = torch::randn({10'000}, type);
    y.backward(weights);
    const at::Tensor factor = (y > 0).to(type) * static_cast<double>(1 / 0.75);
    EXPECT_TRUE(torch::allclose(x.grad(), weights * factor, 1e-2, 1e-6)) << type;
    EXPECT_TRUE(torch::allclose(y, x.detach() * factor, 1e-2, 1e-6)) << type;
  }
}

TEST(ReluDropout, PropagatesNaN) {
  torch::manual_seed(4);
  const at::Tensor y = relu_dropout(torch::full({100}, std::nan("")), 0.5, true);
  EXPECT_GT(y.isnan().sum().item<int64_t>(), 20);
}

TEST(ReluDropout, RefusesAProbabilityOfOne) {
  EXPECT_THROW(relu_dropout(torch::ones({2}), 1.0, true), c10::Error);
  EXPECT_THROW(relu_dropout(torch::ones({2}), -0.1, true), c10::Error);
}

}  // namespace
}  // namespace gnn::nn
