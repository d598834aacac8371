#pragma once

#include <ATen/core/Tensor.h>

namespace gnn::loader {

/// The tensor in memory of the host: itself, if it lies there. One on a device is complete, and is
/// copied beside what others compute there, while the calling thread waits. Throws what torch throws.
[[nodiscard]] at::Tensor on_host(const at::Tensor& tensor);

}  // namespace gnn::loader
