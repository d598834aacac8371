#pragma once

#include "common/result.h"
#include "worker/sampling/device/sampling_device.h"

#include <c10/core/Device.h>

#include <memory>

namespace gnn::sampling::device {

/// Where a GPU's samplers read the graph.
enum class GraphMemory {
  Device,    ///< a copy in the GPU's memory
  ZeroCopy,  ///< the host's memory, pinned where it is; where the driver refuses that, a pinned copy
};

/// A GPU of this process. Its samplers have a stream of torch's pool each, and their batches are
/// tensors of torch's allocator.
/// Errors: Configuration in a build without CUDA kernels, and if `device` is none of the GPUs here.
[[nodiscard]] Result<std::shared_ptr<SamplingDevice>> cuda_device(
    c10::Device device, GraphMemory memory
);

}  // namespace gnn::sampling::device
