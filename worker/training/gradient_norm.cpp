#include "worker/training/gradient_norm.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace gnn::training {
namespace {

// Sums that grow side by side, so that an addition need not wait for the one before.
constexpr int64_t kLanes = 8;

template <class T>
double squares_of(const T* values, int64_t count) {
  std::array<double, kLanes> lanes{};
  const int64_t whole = count - count % kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(values[i + lane]);
      lanes[static_cast<size_t>(lane)] += value * value;
    }
  }
  for (int64_t i = whole; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    lanes[static_cast<size_t>(i - whole)] += value * value;
  }
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

double squares_on_cpu(const at::Tensor& values) {
  const at::Tensor rows = values.contiguous();
  if (rows.scalar_type() == at::kDouble)
    return squares_of(rows.const_data_ptr<double>(), rows.numel());
  TORCH_CHECK(
      rows.scalar_type() == at::kFloat,
      "gradients: expected float32 or float64, found ",
      rows.dtype()
  );
  return squares_of(rows.const_data_ptr<float>(), rows.numel());
}

}  // namespace

double sum_of_squares(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  double sum = 0;
  at::Tensor on_device;
  for (const at::Tensor& values : tensors) {
    if (values.device().is_cpu()) {
      sum += squares_on_cpu(values);
      continue;
    }
    const at::Tensor squares = values.to(at::kDouble).square().sum();
    on_device = on_device.defined() ? on_device + squares : squares;
  }
  return on_device.defined() ? sum + on_device.item<double>() : sum;
}

double clip_factor(double norm, double max_norm) {
  if (!std::isfinite(norm)) return 1;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

void scale_gradients(const std::vector<at::Tensor>& parameters, double factor) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) parameter.mutable_grad().mul_(factor);
  }
}

}  // namespace gnn::training
