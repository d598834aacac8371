#pragma once

#include "worker/gpu/kernels/batch_counters.h"
#include "worker/gpu/kernels/block_scan.h"
#include "worker/gpu/kernels/draw_edges.h"
#include "worker/gpu/kernels/host_device.h"

#include <cstdint>

namespace gnn::gpu {

/// Pairs of a relation that a batch must not have as edges, ascending by destination, then source.
struct ExcludedView {
  const int64_t* destinations = nullptr;  ///< [size]
  const int64_t* sources = nullptr;       ///< [size]
  int64_t size = 0;

  [[nodiscard]] GNN_HOST_DEVICE bool contains(int64_t source, int64_t destination) const {
    int64_t low = 0;
    int64_t high = size;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      const bool is_less = destinations[middle] < destination ||
                           (destinations[middle] == destination && sources[middle] < source);
      if (is_less) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < size && destinations[low] == destination && sources[low] == source;
  }
};

/// Marks the hop's drawn edges that are excluded, by a position below 0, and sums those that stay, a
/// tile of a thread each.
struct MarkExcluded {
  HopView hop{};
  ListsView lists{};
  ExcludedView excluded{};
  const int64_t* ids = nullptr;  ///< of the destination type
  const int64_t* indptr = nullptr;
  int64_t* positions = nullptr;  ///< [edges of the hop]
  int64_t* tile_sums = nullptr;

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    const int64_t begin = hop.begin();
    const int64_t num_destinations = hop.end() - begin;
    const int64_t* const offsets = indptr + hop.indptr_at();
    const int64_t base = hop.indptr_base();
    const int64_t size = hop.num_edges();
    for (int64_t tile = thread.block(); tile * thread.block_size() < size;
         tile += thread.num_blocks()) {
      const int64_t edge = tile * thread.block_size() + thread.index();
      bool stays = false;
      if (edge < size) {
        const int64_t row = destination_of(offsets, base, num_destinations, edge);
        stays = !excluded.contains(lists.source(positions[edge]), ids[begin + row]);
        if (!stays) positions[edge] = ~positions[edge];
      }
      const int64_t total = block_scan(thread, stays ? 1 : 0).total;
      if (thread.index() == 0) tile_sums[tile] = total;
    }
  }
};

/// Turns the tiles' sums into what stays before each.
struct ScanKept {
  HopView hop{};
  int64_t* tile_sums = nullptr;
  uint32_t* kept_before = nullptr;
  int64_t tile = 0;  ///< edges of each

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    const int64_t size = hop.num_edges();
    scan_tile_sums(thread, tile_sums, (size + tile - 1) / tile, [this, size](int64_t total) {
      kept_before[size] = static_cast<uint32_t>(total);
    });
  }
};

/// Moves the edges that stay together, in their order.
struct CompactKept {
  HopView hop{};
  const int64_t* positions = nullptr;
  const int64_t* tile_sums = nullptr;
  int64_t* kept = nullptr;          ///< [edges of the hop]: the positions of those that stay
  uint32_t* kept_before = nullptr;  ///< [edges of the hop + 1]

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    const int64_t size = hop.num_edges();
    for (int64_t tile = thread.block(); tile * thread.block_size() < size;
         tile += thread.num_blocks()) {
      const int64_t edge = tile * thread.block_size() + thread.index();
      const bool stays = edge < size && positions[edge] >= 0;
      const int64_t before = tile_sums[tile] + block_scan(thread, stays ? 1 : 0).before;
      if (edge < size) kept_before[edge] = static_cast<uint32_t>(before);
      if (stays) kept[before] = positions[edge];
    }
  }
};

/// Makes the offsets, and the hop's end, those of the edges that stay.
struct MoveOffsets {
  HopView hop{};
  const uint32_t* kept_before = nullptr;
  int64_t* indptr = nullptr;

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    int64_t* const ends = indptr + hop.indptr_at() + 1;
    const int64_t base = hop.indptr_base();
    for_each_of(thread, hop.num_destinations(), [&](int64_t i) {
      ends[i] = base + int64_t{kept_before[ends[i] - base]};
      if (i == 0) {
        int64_t& end = hop.counters[hop.layout.edges_up_to(hop.relation, hop.hop + 1)];
        end = hop.first_edge() + int64_t{kept_before[hop.num_edges()]};
      }
    });
  }
};

}  // namespace gnn::gpu
