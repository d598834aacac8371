#pragma once

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <vector>

namespace gnn::testing {

struct GradcheckOptions {
  double step = 1e-6;
  double absolute_tolerance = 1e-7;
  double relative_tolerance = 1e-5;
};

/// Compares what autograd says about `inputs` with central differences. `function` reads the
/// inputs' present values, must be smooth around them and the same at each call; a fixed random
/// weighting makes its result a scalar, so every element of the result counts. Inputs: float64
/// leaves that require gradients.
inline ::testing::AssertionResult gradients_match(
    const std::function<at::Tensor()>& function,
    const std::vector<at::Tensor>& inputs,
    const GradcheckOptions& options = {}
) {
  const at::Tensor first = function();
  const at::Tensor weights =
      torch::linspace(0.3, 1.7, first.numel(), first.options().requires_grad(false))
          .sin()
          .reshape(first.sizes());
  const auto scalar = [&](const at::Tensor& value) { return (value * weights).sum(); };
  const auto analytic = torch::autograd::grad({scalar(first)}, inputs);
  const torch::NoGradGuard no_grad;
  for (size_t which = 0; which < inputs.size(); ++which) {
    at::Tensor flat = inputs[which].data().view({-1});
    const at::Tensor gradient = analytic[which].reshape({-1});
    for (int64_t i = 0; i < flat.numel(); ++i) {
      const double value = flat[i].item<double>();
      flat[i] = value + options.step;
      const double above = scalar(function()).item<double>();
      flat[i] = value - options.step;
      const double below = scalar(function()).item<double>();
      flat[i] = value;
      const double expected = (above - below) / (2 * options.step);
      const double found = gradient[i].item<double>();
      const double allowed =
          options.absolute_tolerance + options.relative_tolerance * std::abs(expected);
      if (!(std::abs(found - expected) <= allowed)) {
        return ::testing::AssertionFailure()
               << "input " << which << ", element " << i << ": differences give " << expected
               << ", autograd " << found;
      }
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace gnn::testing
