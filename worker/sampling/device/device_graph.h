#pragma once

#include "common/guarded.h"
#include "common/result.h"
#include "worker/sampling/core/relation_view.h"
#include "worker/sampling/device/sampling_device.h"
#include "worker/sampling/neighbor.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace gnn::sampling::device {

/// Bytes of the arrays that a device reads to sample these relations without edge ids; an array that
/// several of them share counts once.
[[nodiscard]] int64_t graph_bytes(const std::vector<Relation>& relations);

/// A graph's arrays where a device reads them, each there once, however many samplers read it.
/// Threads: any.
class DeviceGraph {
 public:
  explicit DeviceGraph(std::shared_ptr<SamplingDevice> device) : device_(std::move(device)) {}

  [[nodiscard]] SamplingDevice& device() const { return *device_; }

  /// view_of() for the device. What it points to lasts as long as this.
  /// Errors: those of SamplingDevice::place(), with the bytes that it was about.
  [[nodiscard]] Result<core::RelationView> view_of(
      const Relation& relation, size_t place, bool with_edge_ids
  );

  /// Of the arrays so far.
  [[nodiscard]] int64_t bytes() const;

 private:
  struct Array {
    at::Tensor host;  // keeps its address from being another array's
    SamplingDevice::Placed placed;
  };

  template <class T>
  [[nodiscard]] Result<const T*> placed(const at::Tensor& host);

  const std::shared_ptr<SamplingDevice> device_;
  mutable Guarded<std::map<const void*, Array>> arrays_;  // by address
};

}  // namespace gnn::sampling::device
