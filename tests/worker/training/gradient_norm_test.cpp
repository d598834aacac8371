#include "worker/training/gradient_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>
#include <vector>

namespace gnn::training {
namespace {

// With gradients of several sizes, one of them not contiguous.
std::vector<at::Tensor> clipped_parameters(at::ScalarType dtype) {
  torch::manual_seed(5);
  std::vector<at::Tensor> parameters;
  for (const int64_t rows : {1, 3, 70, 999}) {
    at::Tensor parameter = torch::zeros({rows, 13}, at::dtype(dtype)).requires_grad_(true);
    parameter.mutable_grad() = torch::randn({13, rows}, at::dtype(dtype)).t();
    parameters.push_back(parameter);
  }
  return parameters;
}

TEST(GradientNorm, ClipsAsTorchDoesButForANormThatIsNotFinite) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    for (const double most : {0.5, 1000.0}) {
      std::vector<at::Tensor> expected = clipped_parameters(dtype);
      const double norm = torch::nn::utils::clip_grad_norm_(expected, most);
      const std::vector<at::Tensor> found = clipped_parameters(dtype);
      std::vector<at::Tensor> gradients;
      for (const at::Tensor& parameter : found) gradients.push_back(parameter.grad());
      const double squares = sum_of_squares(gradients);
      const double tolerance = dtype == at::kFloat ? 1e-6 : 1e-14;
      EXPECT_NEAR(std::sqrt(squares) / norm, 1, tolerance);
      scale_gradients(found, clip_factor(std::sqrt(squares), most));
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(at::allclose(found[i].grad(), expected[i].grad(), tolerance, tolerance * most));
    }
  }
  EXPECT_EQ(clip_factor(std::numeric_limits<double>::infinity(), 1), 1);
  EXPECT_EQ(clip_factor(std::nan(""), 1), 1);
}

TEST(GradientNorm, HasTheSameBitsForAnyNumberOfThreads) {
  torch::manual_seed(5);
  const at::Tensor values = torch::randn({1000003});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double expected = sum_of_squares({values});
  at::set_num_threads(4);
  EXPECT_EQ(sum_of_squares({values}), expected);
  at::set_num_threads(threads);
  EXPECT_NEAR(expected / values.to(at::kDouble).square().sum().item<double>(), 1, 1e-13);
}

}  // namespace
}  // namespace gnn::training
