#pragma once

#include "worker/sampling/core/draw.h"
#include "worker/sampling/core/rng.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace gnn::sampling::core {

/// Draws distinct positions for many nodes, with AVX2 for four at a time: one node per lane of a
/// vector. The positions are those of NeighborDraw::distinct.
/// Threads: one per thread.
class LaneDraw {
 public:
  static constexpr int64_t kMaxCount = NeighborDraw::kScanLimit;

  /// For one hop and edge type, whose draws are of `count` positions each, 0 < count <= kMaxCount.
  LaneDraw(Philox4x32::Key key, uint32_t hop_lane, int64_t count)
      : key_(key), hop_lane_(hop_lane), count_(count) {}

  /// Queues a node with more than `count` neighbours, the first at position `first`. Its `count`
  /// positions are at `out` after the next flush().
  void add(int64_t node, int64_t degree, int64_t first, int64_t* out) {
    nodes_[size_] = node;
    degrees_[size_] = degree;
    firsts_[size_] = first;
    outs_[size_] = out;
    if (++size_ == kQueue) flush();
  }

  void flush();

 private:
  static constexpr size_t kLanes = 4;
  // A vector load of lanes that were just stored one by one waits for the stores: so many nodes
  // are queued that most were stored long ago.
  static constexpr size_t kQueue = 64;
  using Lanes = std::array<int64_t, kLanes>;

  void draw_lanes(size_t begin);
  void draw_one(size_t at);

  Philox4x32::Key key_;
  uint32_t hop_lane_;
  int64_t count_;
  size_t size_ = 0;
  std::array<int64_t, kQueue> nodes_{};
  std::array<int64_t, kQueue> degrees_{};
  std::array<int64_t, kQueue> firsts_{};
  std::array<int64_t*, kQueue> outs_{};
};

}  // namespace gnn::sampling::core
