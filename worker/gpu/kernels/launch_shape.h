#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace gnn::gpu {

inline constexpr int kWarpThreads = 32;

/// How many threads run a body.
///
/// A body is a struct of plain values with a call operator for one thread, GNN_HOST_DEVICE, whose
/// argument stands for the thread: its place (index(), block(), ...) and all that it shares with
/// others (atomic_min(), shuffle(), sync(), ...). worker/gpu/device_thread.cuh is the one of a GPU,
/// tests/support/gpu_emulator.h the one of the emulator.
struct LaunchShape {
  int64_t blocks = 0;
  int threads = 0;          ///< of each block; whole warps
  size_t shared_bytes = 0;  ///< of each block
};

/// Enough blocks for `items`, one to a thread, but `most` at most: a body takes further ones in turn.
[[nodiscard]] inline LaunchShape shape_for(int64_t items, int threads, int64_t most) {
  return {
      .blocks = std::clamp<int64_t>((items + threads - 1) / threads, 1, most), .threads = threads
  };
}

}  // namespace gnn::gpu
