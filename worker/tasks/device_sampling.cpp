#include "worker/tasks/device_sampling.h"

#include "worker/sampling/device/cuda_device.h"
#include "worker/sampling/device/device_sampler.h"

#include <utility>

namespace gnn::tasks {
namespace {

using sampling::device::DeviceGraph;
using sampling::device::GraphMemory;

Status check_rank(c10::Device device) {
  if (!device.is_cuda()) {
    return fail(
        ErrorKind::Configuration,
        "spec.sampling.device: CUDA expects a rank on CUDA, found one on " + device.str()
    );
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<DeviceGraph>> device_graph_of(
    const api::GnnJobSpec& spec, c10::Device device
) {
  if (!spec.sampling || spec.sampling->device != api::SamplingDevice::CUDA)
    return std::shared_ptr<DeviceGraph>();
  GNN_RETURN_IF_ERROR(check_rank(device));
  const bool in_place = spec.sampling->topology_memory == api::TopologyMemory::ZeroCopy;
  auto gpu =
      sampling::device::cuda_device(device, in_place ? GraphMemory::ZeroCopy : GraphMemory::Device);
  if (!gpu)
    return tl::unexpected(with_context(std::move(gpu).error(), "spec.sampling.device: CUDA"));
  return std::make_shared<DeviceGraph>(*std::move(gpu));
}

Result<std::shared_ptr<sampling::Sampler>> whole_graph_sampler(
    sampling::NeighborSamplerOptions options,
    std::vector<int64_t> num_nodes,
    std::vector<sampling::Relation> relations,
    std::shared_ptr<DeviceGraph> graph,
    std::optional<sampling::device::LargestBatch> largest
) {
  if (graph != nullptr) {
    return sampling::device::DeviceSampler::create(
        std::move(options),
        std::move(num_nodes),
        relations,
        std::move(graph),
        {.in_flight = sampling::device::kDefaultInFlight, .largest = std::move(largest)}
    );
  }
  GNN_ASSIGN_OR_RETURN(
      auto sampler,
      sampling::NeighborSampler::create(
          std::move(options), std::move(num_nodes), std::move(relations)
      )
  );
  return std::make_shared<sampling::LocalSampler>(std::move(sampler));
}

}  // namespace gnn::tasks
