#include "worker/loader/device_copy.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace gnn::loader {
namespace {

c10::impl::VirtualGuardImpl guard_of(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type());
}

}  // namespace

void for_each_tensor(graph::Block& block, VisitTensor visit) {
  visit(block.indptr);
  visit(block.indices);
  visit(block.edge_ids);
}

void for_each_tensor(sampling::SampledSubgraph& subgraph, VisitTensor visit) {
  for (at::Tensor& ids : subgraph.node_ids) visit(ids);
  for (auto& layer : subgraph.blocks) {
    for (graph::Block& block : layer) for_each_tensor(block, visit);
  }
}

void pin(at::Tensor& tensor) {
  if (tensor.defined() && tensor.is_cpu()) tensor = tensor.pin_memory();
}

DeviceCopy::DeviceCopy(at::Device device) : device_(device) {
  if (device.is_cuda())
    stream_ = guard_of(device).getStreamFromGlobalPool(device, /*isHighPriority=*/true);
}

DeviceCopy::OnStream::OnStream(c10::Stream stream)
    : device_(guard_of(stream.device()).exchangeDevice(stream.device())),
      stream_(guard_of(stream.device()).exchangeStream(stream)) {}

DeviceCopy::OnStream::~OnStream() {
  const c10::impl::VirtualGuardImpl guard = guard_of(stream_.device());
  guard.exchangeStream(stream_);
  guard.uncheckedSetDevice(device_);
}

void DeviceCopy::move(at::Tensor& tensor) const {
  if (!tensor.defined()) return;
  const bool is_there = tensor.device().type() == device_.type();
  tensor = tensor.to(device_, /*non_blocking=*/stream_.has_value());
  // What is queued here may read it when the batch was dropped already.
  if (is_there && stream_) tensor.record_stream(*stream_);
}

c10::Stream DeviceCopy::current_stream() const {
  return guard_of(device_).getStream(device_);
}

}  // namespace gnn::loader
