#pragma once

#include "worker/sampling/core/draw.h"
#include "worker/sampling/core/lane_draw.h"
#include "worker/sampling/core/relation_view.h"
#include "worker/sampling/core/rng.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace gnn::sampling::core {

// A chunk is the unit of the passes of a hop: draw positions, read the ids there, relabel. Its
// positions and ids stay in the first-level cache, and passes as long as this keep the number of
// cache misses in flight at its maximum almost always.
inline constexpr int64_t kChunkEdges = 2048;
inline constexpr int64_t kNarrowFanout =
    64;  // up to here a node's draw goes straight into the chunk
inline constexpr int64_t kChunkCapacity = kChunkEdges + kNarrowFanout;
inline constexpr int64_t kOffsetsAhead = 24;  // destinations whose indptr is prefetched early
inline constexpr int64_t kIdsAhead = 64;      // edges whose global ids are

/// Writes values[positions[i]] to out[i].
template <class T>
void read_ahead(const T* values, const int64_t* positions, int64_t count, int64_t* out) {
  for (int64_t i = 0; i < std::min(kIdsAhead, count); ++i)
    __builtin_prefetch(values + positions[i]);
  for (int64_t i = 0; i < count; ++i) {
    __builtin_prefetch(values + positions[std::min(i + kIdsAhead, count - 1)]);
    out[i] = values[positions[i]];
  }
}

/// What to draw for the destinations of a hop.
struct DrawTask {
  const RelationView& relation;
  std::span<const int64_t> destinations;  ///< global ids
  int64_t* offsets = nullptr;  ///< [destinations + 1], written: where the edges of each begin
  int64_t base = 0;            ///< the first offset
  int64_t fanout = 0;
  bool replace = false;
  Philox4x32::Key key{};
  uint32_t lane = 0;  ///< hop | the relation's lane << 8
};

/// Turns the destinations of a hop into chunks of positions in the relation's edge arrays.
class ChunkFiller {
 public:
  /// `draw` and `drawn` have room for draws of task.fanout.
  ChunkFiller(const DrawTask& task, NeighborDraw& draw, int64_t* drawn)
      : indptr_(task.relation.indptr),
        ends_(ends_of(task.relation)),
        first_node_(task.relation.first_node),
        destinations_(task.destinations.data()),
        end_(static_cast<int64_t>(task.destinations.size())),
        offsets_(task.offsets),
        fanout_(task.fanout),
        replace_(task.replace),
        key_(task.key),
        lane_(task.lane),
        draw_(draw),
        lane_draw_(task.key, task.lane, task.fanout),
        drawn_(drawn),
        written_(task.base) {
    offsets_[0] = written_;
    const int64_t ahead = std::min(kOffsetsAhead, end_);
    for (int64_t i = 0; i < ahead; ++i) prefetch_offsets(destinations_[i]);
  }

  /// Writes the next positions to `out`, which has room for kChunkCapacity, and returns how many; 0
  /// when the hop is done.
  int64_t fill(int64_t* out) {
    int64_t size = 0;
    while (size < kChunkEdges) {
      if (pending_ > 0) {
        size += take_pending(out + size, kChunkEdges - size);
      } else if (next_ < end_) {
        size += start_destination(out + size);
      } else {
        break;
      }
    }
    lane_draw_.flush();
    return size;
  }

 private:
  int64_t start_destination(int64_t* out) {
    const int64_t node = destinations_[next_];
    prefetch_offsets(destinations_[std::min(next_ + kOffsetsAhead, end_ - 1)]);
    const int64_t first = indptr_[node - first_node_];
    const int64_t degree = ends_[node - first_node_] - first;
    const bool all = takes_all(degree, fanout_, replace_);
    const int64_t count = all ? degree : fanout_;
    written_ += count;
    offsets_[++next_] = written_;
    if (count > kNarrowFanout) {
      pending_ = count;
      pending_drawn_ = all ? nullptr : drawn_;
      pending_first_ = first;
      if (!all) draw(node, degree, first, drawn_);
      return 0;
    }
    if (all) {
      copy_range(first, count, out);
    } else if (!replace_ && count <= LaneDraw::kMaxCount) {
      lane_draw_.add(node, degree, first, out);
    } else {
      draw(node, degree, first, out);
    }
    return count;
  }

  int64_t take_pending(int64_t* out, int64_t room) {
    const int64_t count = std::min(pending_, room);
    if (pending_drawn_ == nullptr) {
      copy_range(pending_first_, count, out);
      pending_first_ += count;
    } else {
      std::copy_n(pending_drawn_, count, out);
      pending_drawn_ += count;
    }
    pending_ -= count;
    return count;
  }

  void draw(int64_t node, int64_t degree, int64_t first, int64_t* out) {
    const CounterRng rng(key_, lane_, static_cast<uint64_t>(node));
    if (replace_) {
      NeighborDraw::with_replacement(rng, degree, fanout_, first, out);
    } else {
      draw_.distinct(rng, degree, fanout_, first, out);
    }
  }

  void prefetch_offsets(int64_t node) const {
    __builtin_prefetch(indptr_ + (node - first_node_));
    __builtin_prefetch(ends_ + (node - first_node_));
  }

  static void copy_range(int64_t first, int64_t count, int64_t* out) {
    for (int64_t i = 0; i < count; ++i) out[i] = first + i;
  }

  const int64_t* indptr_;
  const int64_t* ends_;
  int64_t first_node_;
  const int64_t* destinations_;
  int64_t end_;
  int64_t* offsets_;
  int64_t fanout_;
  bool replace_;
  Philox4x32::Key key_;
  uint32_t lane_;
  NeighborDraw& draw_;
  LaneDraw lane_draw_;
  int64_t* drawn_;
  int64_t next_ = 0;
  int64_t written_;
  int64_t pending_ = 0;
  int64_t pending_first_ = 0;
  const int64_t* pending_drawn_ = nullptr;
};

}  // namespace gnn::sampling::core
