#pragma once

#include "common/result.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/device/device_graph.h"
#include "worker/sampling/hop_sampler.h"
#include "worker/sampling/neighbor.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace gnn::sampling::device {

/// HopSampler on a device, which has the lists of one part and draws from them itself: the same
/// subgraphs bit for bit, of tensors on the device that are complete. Steps of a batch wait for the
/// device, never for others. A batch under way has a sampler of the device, until it is finished or given
/// up; there are as many as there were batches under way at the same time. Who begins more than are
/// allowed waits for one of them to end: that is for those that were given up, and still wait for replies.
class DeviceHopSampler final : public HopBatches {
 public:
  /// Errors: those of HopSampler::create(), DeviceGraph::view_of() and SamplingDevice::make_sampler().
  [[nodiscard]] static Result<std::shared_ptr<const HopBatches>> create(
      NeighborSamplerOptions options,
      std::vector<int64_t> num_nodes,
      const std::vector<PartOfRelation>& relations,
      std::shared_ptr<DeviceGraph> graph,
      BatchLimits limits = {}
  );

  [[nodiscard]] Result<std::shared_ptr<HopBatch>> begin(const SampleRequest& request
  ) const override;
  [[nodiscard]] bool draws_own_part() const override { return true; }
  [[nodiscard]] int64_t state_bytes_per_batch() const override { return 0; }

 private:
  struct Shared;
  class Batch;
  explicit DeviceHopSampler(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  const std::shared_ptr<Shared> shared_;
};

}  // namespace gnn::sampling::device
