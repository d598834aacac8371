#pragma once

#include "worker/graph/block.h"
#include "worker/sampling/subgraph.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace gnn::loader {

/// Moves the tensors of a batch to a device; to a GPU by way of pinned memory, so that the copy
/// runs beside the host.
class DeviceCopy {
 public:
  explicit DeviceCopy(at::Device device) : device_(device) {}

  /// Leaves an undefined tensor as it is. Throws what torch throws.
  void move(at::Tensor& tensor) const;
  void move(graph::Block& block) const;
  void move(sampling::SampledSubgraph& subgraph) const;

 private:
  at::Device device_;
};

}  // namespace gnn::loader
