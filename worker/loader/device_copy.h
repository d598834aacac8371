#pragma once

#include "worker/graph/block.h"
#include "worker/sampling/subgraph.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/util/FunctionRef.h>

#include <optional>
#include <utility>

namespace gnn::loader {

using VisitTensor = c10::function_ref<void(at::Tensor&)>;

/// Calls `visit` with each tensor that a batch takes to the device. Each batch has such a function.
void for_each_tensor(graph::Block& block, VisitTensor visit);
void for_each_tensor(sampling::SampledSubgraph& subgraph, VisitTensor visit);

/// Puts a CPU tensor into pinned memory, which a GPU reads by itself; leaves one that lies there or on a
/// device, and an undefined one, as it is. Throws what torch throws.
void pin(at::Tensor& tensor);

/// The way of batches to a device. On a GPU copies run on a stream of their own, beside what the model
/// computes on its stream: copy() queues them, and deliver() has the reader's stream wait for them,
/// not the host. Other devices have no streams.
/// Threads: copy() by one at a time, deliver() by the reader.
class DeviceCopy {
 public:
  /// `device` is no CPU.
  explicit DeviceCopy(at::Device device);

  /// Whether copies are to come from pinned memory.
  [[nodiscard]] bool from_pinned() const { return stream_.has_value(); }

  /// Copies those tensors of `batch` that are not there, or on a GPU queues their copies, and replaces
  /// them by those on the device. Returns an event that comes after all that, where there are streams.
  /// Throws what torch throws.
  template <class Batch>
  [[nodiscard]] std::optional<c10::Event> copy(Batch& batch) const {
    std::optional<OnStream> on_stream;
    if (stream_) on_stream.emplace(*stream_);
    for_each_tensor(batch, [this](at::Tensor& tensor) { move(tensor); });
    if (!stream_) return std::nullopt;
    std::optional<c10::Event> copied(std::in_place, device_.type());
    copied->record(*stream_);
    return copied;
  }

  /// Makes the calling thread's current stream wait for `copied`, and keeps the memory of `batch` from
  /// later copies until that stream is done with what it has queued when the batch is dropped.
  template <class Batch>
  void deliver(Batch& batch, const std::optional<c10::Event>& copied) const {
    if (!copied) return;
    const c10::Stream reader = current_stream();
    copied->block(reader);
    for_each_tensor(batch, [&](at::Tensor& tensor) {
      if (tensor.defined()) tensor.record_stream(reader);
    });
  }

 private:
  // Makes `stream` the calling thread's current one, and its device the current device.
  class OnStream {
   public:
    explicit OnStream(c10::Stream stream);
    ~OnStream();
    OnStream(const OnStream&) = delete;
    OnStream& operator=(const OnStream&) = delete;

   private:
    c10::Device device_;
    c10::Stream stream_;
  };

  void move(at::Tensor& tensor) const;
  [[nodiscard]] c10::Stream current_stream() const;

  c10::Device device_;
  std::optional<c10::Stream> stream_;
};

}  // namespace gnn::loader
