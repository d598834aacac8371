#pragma once

#include "common/executor.h"
#include "common/result.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/hop_sampler.h"
#include "worker/shards/part_sampler.h"
#include "worker/shards/peer.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace gnn::shards {

/// Samples a graph whose lists lie with the owners of their nodes. Of each hop it draws its own part's
/// share, on the CPU or where it relabels, and asks each other owner with one message for all edge
/// types; what they draw it relabels in the order of the targets, so that batches are those of a
/// LocalSampler on the whole graph, bit for bit. An owner that answers with a part of what was asked, since lists without a bound may be
/// long, is asked again for the rest.
class RemoteSampler final : public sampling::Sampler {
 public:
  /// `number`: the sampler's, in the order that Service was given. `peers` by part. `received`,
  /// which may be null, grows by the bytes of each reply. `hops` relabels; null: a HopSampler.
  /// Errors: as sampling::HopSampler::create().
  [[nodiscard]] static Result<std::shared_ptr<RemoteSampler>> create(
      uint32_t number,
      std::shared_ptr<PartSampler> own,
      Peers peers,
      std::shared_ptr<std::atomic<int64_t>> received = nullptr,
      std::shared_ptr<const sampling::HopBatches> hops = nullptr
  );

  /// Errors, by `done`: Data for seeds as NeighborSampler::sample(), or for a reply that is none;
  /// PeerLost naming the peer.
  void start(sampling::SampleRequest request, const Executor& executor, Done done) override;

  [[nodiscard]] int64_t state_bytes_per_batch() const override;

 private:
  struct Shared;
  class Run;
  explicit RemoteSampler(std::shared_ptr<const Shared> shared) : shared_(std::move(shared)) {}

  const std::shared_ptr<const Shared> shared_;
};

}  // namespace gnn::shards
