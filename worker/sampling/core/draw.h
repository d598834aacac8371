#pragma once

#include "worker/sampling/core/rng.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace gnn::sampling::core {

/// Whether a list of `degree` is taken whole.
[[nodiscard]] constexpr bool takes_all(int64_t degree, int64_t fanout, bool replace) {
  return fanout < 0 || degree == 0 || (!replace && degree <= fanout);
}

/// How many in-neighbours are drawn from a list of `degree`.
[[nodiscard]] constexpr int64_t drawn_of(int64_t degree, int64_t fanout, bool replace) {
  return takes_all(degree, fanout, replace) ? degree : fanout;
}

/// Draws positions in a neighbour list. Holds the buffers for draws of up to `max_count`.
/// Threads: one per thread.
class NeighborDraw {
 public:
  static constexpr int64_t kScanLimit = 32;
  /// Above kScanLimit: lists of up to so many times the count are shuffled, longer ones drawn from.
  static constexpr int64_t kShuffleFactor = 4;

  explicit NeighborDraw(int64_t max_count) {
    if (max_count <= kScanLimit) return;
    const auto count = static_cast<uint64_t>(max_count);
    permutation_.resize(count * kShuffleFactor);
    seen_.resize(std::bit_ceil(count * 4));
  }

  /// Writes first + o for `count` independent offsets o, each uniform in [0, degree); degree > 0.
  static constexpr void with_replacement(
      CounterRng rng, int64_t degree, int64_t count, int64_t first, int64_t* out
  ) {
    for (int64_t i = 0; i < count; ++i)
      out[i] = first + static_cast<int64_t>(rng.below(static_cast<uint64_t>(degree)));
  }

  /// Writes first + o for `count` distinct offsets o. Every subset of [0, degree) of that size is
  /// equally likely; the order is not random, as in PyG and DGL.
  /// Requires 0 < count < degree and count <= max_count.
  void distinct(CounterRng rng, int64_t degree, int64_t count, int64_t first, int64_t* out) {
    if (count <= kScanLimit) {
      by_scan(rng, degree, count, first, out);
    } else if (degree <= count * kShuffleFactor) {
      partial_shuffle(rng, degree, count, first, out);
    } else {
      floyd_by_table(rng, degree, count, first, out);
    }
  }

  /// What distinct() does up to kScanLimit: Floyd's subset sampling (Bentley and Floyd, "A sample of
  /// brilliance", CACM 1987). Step i draws from [0, last], both ends included, last = degree -
  /// count + i; an offset already taken is replaced by `last`, which no earlier step could draw.
  static constexpr void by_scan(
      CounterRng rng, int64_t degree, int64_t count, int64_t first, int64_t* out
  ) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t last = degree - count + i;
      const int64_t drawn =
          first + static_cast<int64_t>(rng.below(static_cast<uint64_t>(last) + 1));
      bool taken = false;
      for (int64_t j = 0; j < i; ++j) taken |= out[j] == drawn;
      out[i] = taken ? first + last : drawn;
    }
  }

  [[nodiscard]] size_t bytes() const {
    return permutation_.capacity() * sizeof(int64_t) + seen_.capacity() * sizeof(SeenSlot);
  }

 private:
  struct SeenSlot {
    int64_t offset = 0;
    uint64_t stamp = 0;
  };

  void floyd_by_table(CounterRng rng, int64_t degree, int64_t count, int64_t first, int64_t* out) {
    ++stamp_;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t last = degree - count + i;
      const auto drawn = static_cast<int64_t>(rng.below(static_cast<uint64_t>(last) + 1));
      const int64_t chosen = take(drawn) ? drawn : last;
      if (chosen == last && drawn != last) take(last);
      out[i] = first + chosen;
    }
  }

  // Takes `offset`; false if it was taken already.
  bool take(int64_t offset) {
    const uint64_t mask = seen_.size() - 1;
    uint64_t at = (static_cast<uint64_t>(offset) * 0x9E3779B97F4A7C15U) >> 32 & mask;
    while (seen_[at].stamp == stamp_) {
      if (seen_[at].offset == offset) return false;
      at = (at + 1) & mask;
    }
    seen_[at] = {offset, stamp_};
    return true;
  }

  // The first `count` steps of Fisher-Yates, for lists of at most kShuffleFactor * count.
  void partial_shuffle(CounterRng rng, int64_t degree, int64_t count, int64_t first, int64_t* out) {
    for (int64_t i = 0; i < degree; ++i) permutation_[static_cast<size_t>(i)] = first + i;
    for (int64_t i = 0; i < count; ++i) {
      const auto j = static_cast<size_t>(i) + rng.below(static_cast<uint64_t>(degree - i));
      out[i] = permutation_[j];
      permutation_[j] = permutation_[static_cast<size_t>(i)];
    }
  }

  std::vector<int64_t> permutation_;
  std::vector<SeenSlot> seen_;
  uint64_t stamp_ = 0;
};

}  // namespace gnn::sampling::core
