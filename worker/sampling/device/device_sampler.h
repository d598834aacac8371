#pragma once

#include "common/bounded_queue.h"
#include "common/executor.h"
#include "common/result.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/core/relation_view.h"
#include "worker/sampling/device/device_graph.h"
#include "worker/sampling/device/sampling_device.h"
#include "worker/sampling/neighbor.h"
#include "worker/sampling/subgraph.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace gnn::sampling::device {

/// Batches that a device samples at the same time where nobody says how many: while one is sampled,
/// the next is begun.
inline constexpr size_t kDefaultInFlight = 2;

/// LocalSampler on a device: the same subgraphs bit for bit, of tensors on the device, which are
/// complete when `done` is called. The calling thread waits for the device, before start() returns;
/// beyond so many batches at a time for one of them to end first.
class DeviceSampler final : public Sampler {
 public:
  /// Errors: those of NeighborSampler::create(), DeviceGraph::view_of() and
  /// SamplingDevice::make_sampler().
  [[nodiscard]] static Result<std::shared_ptr<DeviceSampler>> create(
      NeighborSamplerOptions options,
      std::vector<int64_t> num_nodes,
      const std::vector<Relation>& relations,
      std::shared_ptr<DeviceGraph> graph,
      const BatchLimits& limits = {.in_flight = kDefaultInFlight}
  );

  void start(SampleRequest request, const Executor& executor, Done done) override;

 private:
  DeviceSampler(
      NeighborSamplerOptions options,
      std::vector<int64_t> num_nodes,
      std::shared_ptr<DeviceGraph> graph,
      size_t in_flight
  );

  [[nodiscard]] Result<SampledSubgraph> sample(const SampleRequest& request);
  [[nodiscard]] Result<SampledSubgraph> sample_by(
      BatchSampler& sampler,
      std::span<const std::span<const int64_t>> seeds,
      const SampleRequest& request
  ) const;

  const NeighborSamplerOptions options_;
  const std::vector<int64_t> num_nodes_;
  const std::shared_ptr<DeviceGraph> graph_;  // keeps what the samplers read
  std::vector<core::RelationView> relations_;
  BoundedQueue<std::unique_ptr<BatchSampler>> idle_;
};

}  // namespace gnn::sampling::device
