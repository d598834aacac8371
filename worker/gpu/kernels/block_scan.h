#pragma once

#include "worker/gpu/kernels/host_device.h"
#include "worker/gpu/kernels/launch_shape.h"

#include <cstddef>
#include <cstdint>

namespace gnn::gpu {

struct BlockScan {
  int64_t before = 0;  ///< sum of the values of the block's threads before this one
  int64_t total = 0;   ///< of all the block's threads
};

/// The shared memory that block_scan() takes.
[[nodiscard]] inline size_t block_scan_bytes(int threads) {
  return static_cast<size_t>(threads / kWarpThreads) * sizeof(int64_t);
}

/// Sums one value per thread of a block. Every thread of the block calls it.
template <class Thread>
GNN_HOST_DEVICE BlockScan block_scan(Thread& thread, int64_t value) {
  const int lane = thread.index() % kWarpThreads;
  const int warp = thread.index() / kWarpThreads;
  int64_t up_to = value;
  for (int distance = 1; distance < kWarpThreads; distance *= 2) {
    const int64_t below = thread.shuffle_up(up_to, distance);
    if (lane >= distance) up_to += below;
  }
  auto* const sums = static_cast<int64_t*>(thread.shared());
  thread.sync();  // a scan before this one may still be read
  if (lane == kWarpThreads - 1) sums[warp] = up_to;
  thread.sync();
  BlockScan scan{.before = up_to - value};
  for (int each = 0; each < thread.block_size() / kWarpThreads; ++each) {
    if (each < warp) scan.before += sums[each];
    scan.total += sums[each];
  }
  return scan;
}

/// Turns the sums of tiles into the sums before each; `done` is called once with the total of all.
/// For one block.
template <class Thread, class Done>
GNN_HOST_DEVICE void scan_tile_sums(
    Thread& thread, int64_t* sums, int64_t num_tiles, const Done& done
) {
  int64_t before = 0;
  for (int64_t first = 0; first < num_tiles; first += thread.block_size()) {
    const int64_t tile = first + thread.index();
    const BlockScan scan = block_scan(thread, tile < num_tiles ? sums[tile] : 0);
    if (tile < num_tiles) sums[tile] = before + scan.before;
    before += scan.total;
  }
  if (thread.index() == 0) done(before);
}

}  // namespace gnn::gpu
