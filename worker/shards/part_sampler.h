#pragma once

#include "common/guarded.h"
#include "common/recycler.h"
#include "common/result.h"
#include "worker/sampling/core/hop_draw.h"
#include "worker/sampling/core/relation_view.h"
#include "worker/sampling/core/rng.h"
#include "worker/sampling/hop_sampler.h"
#include "worker/sampling/neighbor.h"
#include "worker/shards/part.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace gnn::shards {

/// One edge type as a sampler over parts reads it.
struct PartRelation {
  PartLists lists;  ///< at least of the nodes that this part owns
  int64_t source_type = 0;
  int64_t destination_type = 0;
  /// int64 [lists.nodes]: where the visible part of each list ends, a position in lists.indices.
  /// Undefined: all of every list is visible.
  at::Tensor ends = {};
  int64_t lane = -1;                 ///< as in sampling::Relation
  std::vector<int64_t> fanout = {};  ///< as in sampling::Relation
};

/// A sampler that all nodes of a job have alike. They number theirs in the same order.
struct SamplerSpec {
  sampling::NeighborSamplerOptions options;
  std::vector<PartRelation> relations;
};

/// A sampler's share in one part: draws in-neighbours of the nodes that the part owns.
/// Threads: safe from any thread.
class PartSampler {
 public:
  /// Errors: Configuration and Data, as sampling::NeighborSampler::create(), of the part's own lists.
  [[nodiscard]] static Result<std::shared_ptr<PartSampler>> create(
      std::shared_ptr<const Part> part, SamplerSpec spec
  );

  [[nodiscard]] const sampling::NeighborSamplerOptions& options() const { return spec_.options; }
  [[nodiscard]] const std::vector<PartRelation>& relations() const { return spec_.relations; }
  [[nodiscard]] std::vector<sampling::RelationShape> shapes() const;
  /// What it draws from: the lists of the part's own nodes, in the same arrays on every call.
  /// Errors: those of PartLists::graph_of().
  [[nodiscard]] Result<std::vector<sampling::PartOfRelation>> own_relations() const;
  [[nodiscard]] const Part& part() const { return *part_; }

  /// Draws for `nodes`, which this part owns: for as many of the first ones as have `most_edges`
  /// together, and at least for one. Returns for how many.
  size_t draw(
      size_t relation,
      size_t hop,
      const sampling::core::StreamPosition& position,
      std::span<const int64_t> nodes,
      int64_t most_edges,
      sampling::core::DrawnHop& out
  ) const;

  /// Arrays to draw into, taken back when the last copy of the pointer goes.
  [[nodiscard]] std::shared_ptr<sampling::core::DrawnHop> borrow_drawn() { return drawn_.borrow(); }

 private:
  PartSampler(std::shared_ptr<const Part> part, SamplerSpec spec);
  [[nodiscard]] Result<sampling::PartOfRelation> own_part_of(const PartRelation& relation) const;

  const std::shared_ptr<const Part> part_;
  const SamplerSpec spec_;
  std::vector<sampling::core::RelationView> views_;
  mutable Recycler<sampling::core::HopDraw> draws_;
  Recycler<sampling::core::DrawnHop> drawn_;
  mutable Guarded<std::vector<sampling::PartOfRelation>>
      own_relations_;  // empty: not yet asked for
};

}  // namespace gnn::shards
