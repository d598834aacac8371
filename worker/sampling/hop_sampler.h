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

/// A relation of which only the lists of some nodes are here.
struct PartOfRelation {
  Relation relation;       ///< the i-th list of its graph is that of node first_node + i
  int64_t first_node = 0;  ///< of its destination type
};

/// A batch under way that is sampled in steps, where others draw: hop by hop it says which nodes'
/// in-neighbours it wants, takes what was drawn (core::HopDraw) and relabels it.
/// Threads: one at a time.
class HopBatch {
 public:
  /// What it wants of one relation in its next hop.
  struct Wanted {
    size_t relation = 0;
    std::span<const int64_t> nodes;  ///< global ids, valid until the hop is added
  };

  virtual ~HopBatch() = default;
  /// The next one; as many as there are hops after the last.
  [[nodiscard]] virtual size_t hop() const = 0;
  /// Relations of which some nodes' in-neighbours are wanted.
  [[nodiscard]] virtual std::vector<Wanted> wanted() const = 0;
  /// Ends the hop. `drawn` by relation, for the wanted nodes in their order; no edges for others.
  /// Sources must be nodes of their type, which the caller has checked.
  /// Errors: those of the device that samples, where there is one; the batch is over then.
  [[nodiscard]] virtual Status add_hop(std::span<const core::DrawnLists> drawn) = 0;
  /// After the last hop, once.
  /// Errors: as add_hop().
  [[nodiscard]] virtual Result<SampledSubgraph> finish() = 0;
};

/// Makes such batches, which are NeighborSampler's bit for bit.
/// Threads: safe from any thread.
class HopBatches {
 public:
  virtual ~HopBatches() = default;
  /// Begins a batch around the request's seeds. Of the request's tensors nothing is kept.
  /// Errors: as NeighborSampler::sample(), and those of the device that samples.
  [[nodiscard]] virtual Result<std::shared_ptr<HopBatch>> begin(const SampleRequest& request
  ) const = 0;
  /// Whether it draws itself for the nodes of the part that it was made for: of these
  /// HopBatch::add_hop() takes a piece without counts.
  [[nodiscard]] virtual bool draws_own_part() const = 0;
  /// The largest state of any batch so far, in bytes of the host, without the batches' tensors.
  [[nodiscard]] virtual int64_t state_bytes_per_batch() const = 0;
};

/// NeighborSampler in steps, on the CPU.
class HopSampler final : public HopBatches {
 public:
  class Impl;

  class Batch final : public HopBatch {
   public:
    Batch(std::shared_ptr<Impl> impl, const SampleRequest& request);

    [[nodiscard]] size_t hop() const override { return hop_; }
    [[nodiscard]] std::vector<Wanted> wanted() const override;
    [[nodiscard]] Status add_hop(std::span<const core::DrawnLists> drawn) override;
    [[nodiscard]] Result<SampledSubgraph> finish() override;

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

  [[nodiscard]] Result<std::shared_ptr<HopBatch>> begin(const SampleRequest& request
  ) const override;
  [[nodiscard]] bool draws_own_part() const override { return false; }
  [[nodiscard]] int64_t state_bytes_per_batch() const override;

 private:
  explicit HopSampler(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<Impl> impl_;
};

}  // namespace gnn::sampling
