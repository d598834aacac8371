#include "worker/checkpoint/finite.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>

#include <cstddef>

namespace gnn::checkpoint {

namespace {

// Large tables are looked at in parts: what isfinite() makes of one is as large as it is.
constexpr int64_t kPartElements = int64_t{1} << 22;

at::Tensor all_finite(const at::Tensor& tensor) {
  if (tensor.numel() <= kPartElements || !tensor.is_contiguous()) return at::isfinite(tensor).all();
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : tensor.flatten().split(kPartElements))
    parts.push_back(at::isfinite(part).all());
  return at::stack(parts).all();
}

}  // namespace

std::optional<std::string> first_not_finite(const std::vector<CheckpointTensor>& tensors) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> finite;
  std::vector<const std::string*> names;
  for (const CheckpointTensor& entry : tensors) {
    if (!entry.tensor.defined() || !entry.tensor.is_floating_point()) continue;
    finite.push_back(all_finite(entry.tensor));
    names.push_back(&entry.name);
  }
  if (finite.empty()) return std::nullopt;
  const at::Tensor each = at::stack(finite).to(at::kCPU);
  const bool* const values = each.const_data_ptr<bool>();
  for (size_t i = 0; i < names.size(); ++i) {
    if (!values[i]) return *names[i];
  }
  return std::nullopt;
}

}  // namespace gnn::checkpoint
