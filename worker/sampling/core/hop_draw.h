#pragma once

#include "common/page_buffer.h"
#include "worker/sampling/core/draw.h"
#include "worker/sampling/core/drawn_lists.h"
#include "worker/sampling/core/relation_view.h"
#include "worker/sampling/core/rng.h"
#include "worker/sampling/core/sampling_rule.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gnn::sampling::core {

/// The key of the draws of a batch by a rule.
[[nodiscard]] Philox4x32::Key draw_key(const StreamPosition& position, SamplingRule rule);

/// One hop of a batch by one relation.
struct HopOfRelation {
  size_t hop = 0;
  int64_t fanout = 0;
  bool replace = false;
  Philox4x32::Key key{};
};

/// What was drawn for some nodes. Reused, it stops allocating once it has grown.
struct DrawnHop {
  std::vector<uint32_t> counts;  ///< of each node
  Buffer<int64_t> sources;       ///< [num_edges]: global ids
  Buffer<int64_t> edge_ids;      ///< [num_edges], if wanted
  int64_t num_edges = 0;

  [[nodiscard]] DrawnPiece piece() const {
    return {
        .counts = counts.data(),
        .sources = sources.data(),
        .edge_ids = edge_ids.data(),
        .num_edges = num_edges
    };
  }
};

/// Draws the in-neighbours of one hop for any nodes: those that NeighborKernel::sample() draws for
/// them.
/// Threads: one per thread; the graph may be shared.
class HopDraw {
 public:
  /// For draws of up to `max_fanout` neighbours.
  HopDraw(int64_t max_fanout, bool replace);

  /// How many of the first `nodes` have `most_edges` edges together at most; at least 1 unless there
  /// are none.
  [[nodiscard]] static size_t how_many(
      const RelationView& relation,
      const HopOfRelation& hop,
      std::span<const int64_t> nodes,
      int64_t most_edges
  );

  /// Replaces `out`. `nodes` have their lists in `relation`, which the caller has checked.
  void draw(
      const RelationView& relation,
      const HopOfRelation& hop,
      std::span<const int64_t> nodes,
      bool with_edge_ids,
      DrawnHop& out
  );

 private:
  NeighborDraw draw_;
  std::vector<int64_t> drawn_;
  std::vector<int64_t> offsets_;
  std::vector<int64_t> positions_;
};

}  // namespace gnn::sampling::core
