#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace gnn::training {

/// XXH64 over the bytes of the tensors, one after another, as 16 hexadecimal digits.
[[nodiscard]] std::string hash_of(const std::vector<at::Tensor>& tensors);

}  // namespace gnn::training
