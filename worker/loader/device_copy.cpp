#include "worker/loader/device_copy.h"

namespace gnn::loader {

void DeviceCopy::move(at::Tensor& tensor) const {
  if (!tensor.defined()) return;
  if (device_.is_cuda()) tensor = tensor.pin_memory();
  tensor = tensor.to(device_, /*non_blocking=*/device_.is_cuda());
}

void DeviceCopy::move(graph::Block& block) const {
  move(block.indptr);
  move(block.indices);
  move(block.edge_ids);
}

void DeviceCopy::move(sampling::SampledSubgraph& subgraph) const {
  for (at::Tensor& ids : subgraph.node_ids) move(ids);
  for (auto& layer : subgraph.blocks) {
    for (graph::Block& block : layer) move(block);
  }
}

}  // namespace gnn::loader
