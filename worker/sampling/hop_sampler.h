#pragma once

#include "common/result.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/core/drawn_lists.h"
#include "worker/sampling/neighbor.h"
#include "worker/sampling/sample_parts.h"
#include "worker/sampling/subgraph.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gnn::sampling {

/// A relation whose lists may lie elsewhere.
struct RelationShape {
  int64_t source_type = 0;
  int64_t destination_type = 0;
  int64_t lane = -1;                 ///< as in Relation
  std::vector<int64_t> fanout = {};  ///< as in Relation
};

/// NeighborSampler in steps, where others draw: hop by hop a batch says which nodes' in-neighbours it
/// wants, takes what was drawn (core::HopDraw) and relabels it. Its batches are NeighborSampler's bit
/// for bit.
/// Threads: safe from any thread; a batch is used by one at a time.
class HopSampler {
 public:
  /// What a batch wants of one relation in its next hop.
  struct Wanted {
    size_t relation = 0;
    int64_t fanout = 0;
    std::span<const int64_t> nodes;  ///< global ids, valid until the hop is added
  };

  class Impl;

  /// A batch under way.
  class Batch {
   public:
    Batch(std::shared_ptr<Impl> impl, const SampleRequest& request);

    /// The next one; as many as there are hops after the last.
    [[nodiscard]] size_t hop() const { return hop_; }
    /// Relations of which some nodes' in-neighbours are wanted.
    [[nodiscard]] std::vector<Wanted> wanted() const;
    /// Ends the hop. `drawn` by relation, for the wanted nodes in their order; no edges for others.
    /// Sources must be nodes of their type, which the caller has checked.
    void add_hop(std::span<const core::DrawnLists> drawn);
    /// After the last hop, once.
    [[nodiscard]] SampledSubgraph finish();

   private:
    friend class HopSampler;

    std::shared_ptr<Impl> impl_;
    BatchExclusions exclusions_;
    std::shared_ptr<core::SampleArena> arena_;
    std::shared_ptr<core::NeighborKernel> kernel_;  // null once finished
    size_t hop_ = 0;
  };

  /// Errors: as NeighborSampler::create().
  [[nodiscard]] static Result<HopSampler> create(
      NeighborSamplerOptions options,
      std::vector<int64_t> num_nodes,
      const std::vector<RelationShape>& relations
  );

  /// Begins a batch around the request's seeds. Of the request's tensors nothing is kept.
  /// Errors: as NeighborSampler::sample().
  [[nodiscard]] Result<std::shared_ptr<Batch>> begin(const SampleRequest& request) const;

  [[nodiscard]] const NeighborSamplerOptions& options() const;
  /// The largest state of any batch so far, in bytes, without the batches' tensors.
  [[nodiscard]] int64_t state_bytes_per_batch() const;

 private:
  explicit HopSampler(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<Impl> impl_;
};

}  // namespace gnn::sampling
