#pragma once

#include "common/hash.h"

#include <cstdint>

namespace gnn::data {

/// Random bits as a function of (seed, stream, index) alone, the same in any order and on any
/// thread. A stream is SplitMix64 (Steele, Lea, Flood 2014), read at any position.
class CounterRandom {
 public:
  CounterRandom(uint64_t seed, uint64_t stream)
      : key_(splitmix64((splitmix64(seed, 0) ^ (stream * kGolden)) - kGolden, 0)) {}

  [[nodiscard]] uint64_t bits(uint64_t index) const { return splitmix64(key_, index); }
  /// Uniform in [0, 1) with 53 bits.
  [[nodiscard]] double uniform(uint64_t index) const {
    return static_cast<double>(bits(index) >> 11U) * 0x1p-53;
  }
  /// Uniform in [0, bound) by the high half of a product (Lemire 2019); the bias is below
  /// bound / 2^64.
  [[nodiscard]] int64_t below(uint64_t index, int64_t bound) const {
    return static_cast<int64_t>(scale(bits(index), static_cast<uint64_t>(bound)));
  }

  [[nodiscard]] static uint64_t scale(uint64_t bits, uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>(bits) * bound) >> 64U);
  }

 private:
  static constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ULL;

  uint64_t key_;
};

}  // namespace gnn::data
