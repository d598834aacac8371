#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

namespace gnn::tasks {

/// The elements of a contiguous CPU tensor of dtype T, in order. Valid as long as the tensor's memory.
template <class T>
std::span<const T> values_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<T>(), static_cast<size_t>(tensor.numel())};
}

}  // namespace gnn::tasks
