#pragma once

#include <cstdint>

namespace gnn::graph {

/// Random bits that are a function of (seed, stream, index) alone: whatever order or thread asks,
/// the answer is the same. Within a stream it is SplitMix64 (Steele, Lea, Flood 2014) read at any
/// position.
class CounterRandom {
 public:
  CounterRandom(uint64_t seed, uint64_t stream)
      : key_(mix(mix(seed + kGolden) ^ (stream * kGolden))) {}

  [[nodiscard]] uint64_t bits(uint64_t index) const { return mix(key_ + (index + 1) * kGolden); }
  /// Uniform in [0, 1) with 53 bits.
  [[nodiscard]] double uniform(uint64_t index) const {
    return static_cast<double>(bits(index) >> 11U) * 0x1p-53;
  }
  /// Uniform in [0, bound): the high half of the product (Lemire 2019); its bias is below bound /
  /// 2^64.
  [[nodiscard]] int64_t below(uint64_t index, int64_t bound) const {
    return static_cast<int64_t>(scale(bits(index), static_cast<uint64_t>(bound)));
  }

  [[nodiscard]] static uint64_t scale(uint64_t bits, uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>(bits) * bound) >> 64U);
  }

 private:
  static constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ULL;
  [[nodiscard]] static constexpr uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31U);
  }

  uint64_t key_;
};

}  // namespace gnn::graph
