#include "worker/checkpoint/finite.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>

#include <cstddef>

namespace gnn::checkpoint {

std::optional<std::string> first_not_finite(const std::vector<CheckpointTensor>& tensors) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> finite;
  std::vector<const std::string*> names;
  for (const CheckpointTensor& entry : tensors) {
    if (!entry.tensor.defined() || !entry.tensor.is_floating_point()) continue;
    finite.push_back(at::isfinite(entry.tensor).all());
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
