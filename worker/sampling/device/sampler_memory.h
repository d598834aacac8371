#pragma once

#include "common/result.h"
#include "worker/sampling/device/sampling_device.h"

#include <cstdint>

namespace gnn::sampling::device {

/// What a sampler takes of memory.
struct SamplerMemory {
  int64_t device_bytes = 0;
  int64_t pinned_bytes = 0;  ///< of the host
};

/// What a GPU's sampler takes when it is made, and for all batches up to the largest, which `spec` has.
/// No array of its relations is read.
/// Errors: Configuration for a batch that no GPU samples.
[[nodiscard]] Result<SamplerMemory> memory_of_sampler(const SamplerSpec& spec);

}  // namespace gnn::sampling::device
