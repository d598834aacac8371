#pragma once

#include "common/result.h"
#include "worker/sampling/device/sampling_device.h"
#include "worker/sampling/neighbor.h"
#include "worker/sampling/subgraph.h"

#include <exception>
#include <utility>
#include <vector>

namespace gnn::sampling::device {

/// An error of a device; where memory is used up, with what takes less of it.
[[nodiscard]] Error device_error(Error error);
/// What torch threw.
[[nodiscard]] Error device_error(const std::exception& thrown);

/// What `work` returns, a Result or Status; an error of it, or what it throws, as device_error() has it.
template <class Work>
[[nodiscard]] auto on_device(const Work& work) -> decltype(work()) {
  try {
    auto done = work();
    if (!done) return tl::unexpected(device_error(std::move(done).error()));
    return done;
  } catch (const std::exception& thrown) {
    return tl::unexpected(device_error(thrown));
  }
}

/// The subgraph that a sampler samples, once it is there: tensors of the device that are complete.
/// Errors: the sampler's. Throws what torch throws.
[[nodiscard]] Result<SampledSubgraph> subgraph_of(
    BatchSampler& sampler,
    const NeighborSamplerOptions& options,
    const std::vector<core::RelationView>& relations
);

}  // namespace gnn::sampling::device
