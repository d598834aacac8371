#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/device/device_graph.h"
#include "worker/sampling/device/sampling_device.h"
#include "worker/sampling/neighbor.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gnn::tasks {

/// The GPU of a rank on `device` with the graph that its samplers read there, nothing of which is loaded
/// yet; null where CPUs sample.
/// Errors: Configuration naming the field, if the rank cannot sample as the spec says.
[[nodiscard]] Result<std::shared_ptr<sampling::device::DeviceGraph>> device_graph_of(
    const api::GnnJobSpec& spec, c10::Device device
);

/// A sampler of lists that are all on this node: on the device that has `graph`, with the memory for
/// `largest`, or of null on CPUs.
/// Errors: those of NeighborSampler::create() and DeviceSampler::create().
[[nodiscard]] Result<std::shared_ptr<sampling::Sampler>> whole_graph_sampler(
    sampling::NeighborSamplerOptions options,
    std::vector<int64_t> num_nodes,
    std::vector<sampling::Relation> relations,
    std::shared_ptr<sampling::device::DeviceGraph> graph,
    std::optional<sampling::device::LargestBatch> largest = std::nullopt
);

}  // namespace gnn::tasks
