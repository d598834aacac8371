#pragma once

#include "worker/gpu/kernels/batch_counters.h"
#include "worker/gpu/kernels/block_scan.h"
#include "worker/gpu/kernels/host_device.h"
#include "worker/gpu/kernels/launch_shape.h"
#include "worker/sampling/core/draw.h"
#include "worker/sampling/core/rng.h"

#include <cstddef>
#include <cstdint>

namespace gnn::gpu {

/// What is added to the position of an edge of a list that lies elsewhere: the rest is its place among
/// the edges that were sent.
inline constexpr int64_t kSent = int64_t{1} << 62;

/// One relation's lists, where the threads that run can read them.
struct ListsView {
  const int64_t* indptr = nullptr;
  const int64_t* ends = nullptr;       ///< as core::ends_of() gives it
  const int32_t* indices32 = nullptr;  ///< exactly one of indices32 and indices64 is set
  const int64_t* indices64 = nullptr;
  const int64_t* edge_ids = nullptr;  ///< null: an edge's id is its position
  int64_t first_node = 0;             ///< that of the first list
  // Of lists that lie elsewhere, what was drawn from them and sent.
  const int64_t* sent_sources = nullptr;
  const int64_t* sent_edge_ids = nullptr;

  [[nodiscard]] GNN_HOST_DEVICE int64_t source(int64_t position) const {
    if (position >= kSent) return sent_sources[position - kSent];
    return indices32 != nullptr ? int64_t{indices32[position]} : indices64[position];
  }
  [[nodiscard]] GNN_HOST_DEVICE int64_t edge_id(int64_t position) const {
    if (position >= kSent) return sent_edge_ids[position - kSent];
    return edge_ids != nullptr ? edge_ids[position] : position;
  }
};

/// Calls each(i) for the items of a thread in [0, size).
template <class Thread, class Each>
GNN_HOST_DEVICE void for_each_of(const Thread& thread, int64_t size, const Each& each) {
  const int64_t threads = thread.num_blocks() * thread.block_size();
  for (int64_t i = thread.block() * thread.block_size() + thread.index(); i < size; i += threads)
    each(i);
}

/// The destination that has an edge, of `size`, whose offsets begin with `base`.
GNN_HOST_DEVICE inline int64_t destination_of(
    const int64_t* offsets, int64_t base, int64_t size, int64_t edge
) {
  // The last whose edges start at or before this one: those before that start there have none.
  int64_t low = 0;
  int64_t high = size;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (offsets[middle] - base <= edge ? low : high) = middle;
  }
  return low;
}

/// What is known of the lists of a hop's destinations before they are drawn from. One that lies
/// elsewhere is what was sent of it, all of which is taken.
struct ListStarts {
  int64_t* starts = nullptr;   ///< [destinations]: positions of the lists
  int64_t* degrees = nullptr;  ///< [destinations]
};

/// How a hop draws.
struct DrawRule {
  int64_t fanout = 0;
  bool replace = false;
  sampling::core::Philox4x32::Key key{};
  uint32_t lane = 0;  ///< hop | the relation's lane << 8

  /// How much of a list is taken.
  [[nodiscard]] GNN_HOST_DEVICE int64_t count(int64_t start, int64_t degree) const {
    return start >= kSent ? degree : sampling::core::drawn_of(degree, fanout, replace);
  }
  [[nodiscard]] GNN_HOST_DEVICE bool takes_all(int64_t start, int64_t degree) const {
    return start >= kSent || sampling::core::takes_all(degree, fanout, replace);
  }
  [[nodiscard]] GNN_HOST_DEVICE sampling::core::CounterRng random(int64_t node) const {
    return {key, lane, static_cast<uint64_t>(node)};
  }
  /// Whether a list is too much for one thread: DrawWide or TakeWhole draws then.
  [[nodiscard]] GNN_HOST_DEVICE bool wide() const {
    return fanout < 0 || (!replace && fanout > sampling::core::NeighborDraw::kScanLimit);
  }
};

/// Reads where the destinations' lists lie, and sums what will be drawn, a tile of a thread each. Of
/// lists that lie elsewhere `out` has it already.
struct CountDrawn {
  HopView hop{};
  ListsView lists{};
  DrawRule rule{};
  const int64_t* ids = nullptr;  ///< of the destination type
  ListStarts out{};
  int64_t* tile_sums = nullptr;
  bool some_sent = false;  ///< whether `out` holds anything yet

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    const int64_t begin = hop.begin();
    const int64_t size = hop.end() - begin;
    for (int64_t tile = thread.block(); tile * thread.block_size() < size;
         tile += thread.num_blocks()) {
      const int64_t i = tile * thread.block_size() + thread.index();
      int64_t count = 0;
      if (i < size) {
        if (!some_sent || out.starts[i] < kSent) find(ids[begin + i] - lists.first_node, i);
        count = rule.count(out.starts[i], out.degrees[i]);
      }
      const int64_t total = block_scan(thread, count).total;
      if (thread.index() == 0) tile_sums[tile] = total;
    }
  }

 private:
  GNN_HOST_DEVICE void find(int64_t list, int64_t i) const {
    out.starts[i] = lists.indptr[list];
    out.degrees[i] = lists.ends[list] - lists.indptr[list];
  }
};

/// Turns the tiles' sums into what is drawn before each, and ends the hop's edges.
struct ScanDrawn {
  HopView hop{};
  int64_t* indptr = nullptr;
  int64_t* tile_sums = nullptr;
  int64_t tile = 0;  ///< destinations of each

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    const int64_t tiles = (hop.num_destinations() + tile - 1) / tile;
    scan_tile_sums(thread, tile_sums, tiles, [this](int64_t total) {
      indptr[hop.indptr_at()] = hop.indptr_base();
      const CounterLayout& layout = hop.layout;
      hop.counters[layout.edges_up_to(hop.relation, hop.hop + 1)] = hop.first_edge() + total;
    });
  }
};

/// Writes the offsets of the destinations, and draws for each by one thread unless the rule is wide.
struct DrawNarrow {
  HopView hop{};
  DrawRule rule{};
  const int64_t* ids = nullptr;
  ListStarts lists{};
  const int64_t* tile_sums = nullptr;
  int64_t* indptr = nullptr;
  int64_t* positions = nullptr;  ///< [edges of the hop]

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    const int64_t begin = hop.begin();
    const int64_t size = hop.end() - begin;
    int64_t* const ends = indptr + hop.indptr_at() + 1;
    const int64_t base = hop.indptr_base();
    for (int64_t tile = thread.block(); tile * thread.block_size() < size;
         tile += thread.num_blocks()) {
      const int64_t i = tile * thread.block_size() + thread.index();
      const int64_t start = i < size ? lists.starts[i] : 0;
      const int64_t degree = i < size ? lists.degrees[i] : 0;
      const int64_t count = i < size ? rule.count(start, degree) : 0;
      const int64_t offset = tile_sums[tile] + block_scan(thread, count).before;
      if (i >= size) continue;
      ends[i] = base + offset + count;
      if (!rule.wide()) draw(ids[begin + i], degree, start, positions + offset);
    }
  }

 private:
  GNN_HOST_DEVICE void draw(int64_t node, int64_t degree, int64_t start, int64_t* out) const {
    using sampling::core::NeighborDraw;
    if (rule.takes_all(start, degree)) {
      for (int64_t i = 0; i < degree; ++i) out[i] = start + i;
    } else if (rule.replace) {
      NeighborDraw::with_replacement(rule.random(node), degree, rule.fanout, start, out);
    } else {
      NeighborDraw::by_scan(rule.random(node), degree, rule.fanout, start, out);
    }
  }
};

/// Takes the lists whole, a thread for each edge, so that long lists are split.
struct TakeWhole {
  HopView hop{};
  ListStarts lists{};
  const int64_t* indptr = nullptr;
  int64_t* positions = nullptr;

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    const int64_t* const offsets = indptr + hop.indptr_at();
    const int64_t base = hop.indptr_base();
    const int64_t size = hop.num_destinations();
    for_each_of(thread, hop.num_edges(), [&](int64_t edge) {
      const int64_t row = destination_of(offsets, base, size, edge);
      positions[edge] = lists.starts[row] + edge - (offsets[row] - base);
    });
  }
};

/// Draws more than NeighborDraw::kScanLimit distinct positions, a warp for each destination. The
/// positions are those of NeighborDraw::distinct(); what that keeps in tables is found here by
/// searching what was drawn so far.
struct DrawWide {
  HopView hop{};
  DrawRule rule{};
  const int64_t* ids = nullptr;
  ListStarts lists{};
  const int64_t* indptr = nullptr;
  int64_t* positions = nullptr;
  uint32_t* swapped = nullptr;  ///< [2 * edges of the hop]: of each step of a shuffle, two words

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    const int64_t begin = hop.begin();
    const int64_t size = hop.end() - begin;
    const int64_t* const offsets = indptr + hop.indptr_at();
    const int64_t base = hop.indptr_base();
    const int lane = thread.index() % kWarpThreads;
    const int64_t warps_per_block = thread.block_size() / kWarpThreads;
    for (int64_t i = thread.block() * warps_per_block + thread.index() / kWarpThreads; i < size;
         i += thread.num_blocks() * warps_per_block) {
      const int64_t degree = lists.degrees[i];
      const int64_t start = lists.starts[i];
      const int64_t offset = offsets[i] - base;
      int64_t* const out = positions + offset;
      if (rule.takes_all(start, degree)) {
        for (int64_t j = lane; j < degree; j += kWarpThreads) out[j] = start + j;
      } else if (degree <= rule.fanout * sampling::core::NeighborDraw::kShuffleFactor) {
        shuffle(thread, ids[begin + i], degree, start, {out, swapped + 2 * offset});
      } else {
        floyd(thread, ids[begin + i], degree, start, out);
      }
    }
  }

 private:
  struct ShuffleOut {
    int64_t* out;
    uint32_t* swapped;
  };

  // All lanes draw the same numbers, and share the search for those taken.
  template <class Thread>
  GNN_HOST_DEVICE void floyd(
      Thread& thread, int64_t node, int64_t degree, int64_t start, int64_t* out
  ) const {
    const int lane = thread.index() % kWarpThreads;
    sampling::core::CounterRng random = rule.random(node);
    for (int64_t i = 0; i < rule.fanout; ++i) {
      const int64_t last = degree - rule.fanout + i;
      const int64_t drawn =
          start + static_cast<int64_t>(random.below(static_cast<uint64_t>(last) + 1));
      bool taken = false;
      for (int64_t j = lane; j < i; j += kWarpThreads) taken |= out[j] == drawn;
      taken = thread.ballot(taken) != 0;
      if (lane == 0) out[i] = taken ? start + last : drawn;
      thread.sync_warp();
    }
  }

  // Step i swaps elements i and j of what was 0, 1, 2, ... An element is what the last step before
  // that put there, or its own place.
  template <class Thread>
  GNN_HOST_DEVICE void shuffle(
      Thread& thread, int64_t node, int64_t degree, int64_t start, const ShuffleOut& to
  ) const {
    const int lane = thread.index() % kWarpThreads;
    sampling::core::CounterRng random = rule.random(node);
    for (int64_t i = 0; i < rule.fanout; ++i) {
      const auto own = static_cast<uint32_t>(i);
      const auto other =
          own + static_cast<uint32_t>(random.below(static_cast<uint64_t>(degree - i)));
      int64_t own_step = -1;
      int64_t other_step = -1;
      for (int64_t step = lane; step < i; step += kWarpThreads) {
        if (to.swapped[2 * step] == own) own_step = step;
        if (to.swapped[2 * step] == other) other_step = step;
      }
      own_step = warp_max(thread, own_step);
      other_step = warp_max(thread, other_step);
      if (lane == 0) {
        const uint32_t own_value = own_step < 0 ? own : to.swapped[2 * own_step + 1];
        to.out[i] = start + (other_step < 0 ? other : to.swapped[2 * other_step + 1]);
        to.swapped[2 * i] = other;
        to.swapped[2 * i + 1] = own_value;
      }
      thread.sync_warp();
    }
  }

  template <class Thread>
  GNN_HOST_DEVICE static int64_t warp_max(Thread& thread, int64_t value) {
    for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
      const int64_t other = thread.shuffle_xor(value, distance);
      if (other > value) value = other;
    }
    return value;
  }
};

}  // namespace gnn::gpu
