#pragma once

#include <array>
#include <cstdint>

namespace gnn::sampling::core {

/// Philox4x32-10: a keyed bijection of 128-bit counters; equal inputs give equal bits on every
/// thread, rank and device.
/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
struct Philox4x32 {
  using Counter = std::array<uint32_t, 4>;
  using Key = std::array<uint32_t, 2>;

  [[nodiscard]] static constexpr Counter block(Counter counter, Key key) {
    for (int round = 0; round < 10; ++round) {
      const uint64_t product0 = uint64_t{0xD2511F53U} * counter[0];
      const uint64_t product1 = uint64_t{0xCD9E8D57U} * counter[2];
      counter = {
          static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
          static_cast<uint32_t>(product1),
          static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
          static_cast<uint32_t>(product0)
      };
      key[0] += 0x9E3779B9U;
      key[1] += 0xBB67AE85U;
    }
    return counter;
  }
};

/// What a stream of random numbers is for. Streams of different purposes share no bits.
enum class StreamPurpose : uint32_t {
  NewNodes = 1,
  AllSeen = 2,
  EpochShuffle = 3,
  TrainingNegatives = 4,
  HeldOutNegatives = 5,
  RankingNegatives = 6,
};

/// The place of a stream in a run. `batch` is the position of the batch's first item in the epoch's
/// global order, so that a sample does not depend on the rank or thread that draws it.
struct StreamPosition {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t batch = 0;
};

/// The key of all draws of one batch (or of one epoch's shuffle).
[[nodiscard]] constexpr Philox4x32::Key derive_key(
    const StreamPosition& position, StreamPurpose purpose
) {
  const auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
  const auto high = [](uint64_t word) { return static_cast<uint32_t>(word >> 32); };
  const Philox4x32::Counter epoch = Philox4x32::block(
      {low(position.epoch), high(position.epoch), static_cast<uint32_t>(purpose), 0},
      {low(position.seed), high(position.seed)}
  );
  const Philox4x32::Counter batch = Philox4x32::block(
      {low(position.batch), high(position.batch), epoch[2], epoch[3]}, {epoch[0], epoch[1]}
  );
  return {batch[0], batch[1]};
}

/// The random numbers of one (key, lane, node), lane being hop and edge type. Cheap to create;
/// draws are sequential. constexpr, so that nvcc also compiles it for GPUs.
class CounterRng {
 public:
  constexpr CounterRng(Philox4x32::Key key, uint32_t lane, uint64_t node)
      : key_(key),
        counter_{static_cast<uint32_t>(node), static_cast<uint32_t>(node >> 32), 0, lane} {}

  [[nodiscard]] constexpr uint32_t next32() {
    if (used_ == 4) refill();
    return words_[used_++];
  }

  [[nodiscard]] constexpr uint64_t next64() {
    const uint64_t low = next32();
    return (uint64_t{next32()} << 32) | low;
  }

  /// Uniform in [0, bound), without bias; bound > 0.
  /// Source: Lemire, "Fast random integer generation in an interval", 2019, alg. 5.
  [[nodiscard]] constexpr uint64_t below(uint64_t bound) {
    return bound <= 0xFFFFFFFFU ? below32(static_cast<uint32_t>(bound)) : below64(bound);
  }

  [[nodiscard]] constexpr uint32_t below32(uint32_t bound) {
    uint64_t product = uint64_t{next32()} * bound;
    if (static_cast<uint32_t>(product) < bound) [[unlikely]] {
      const uint32_t threshold = (0U - bound) % bound;
      while (static_cast<uint32_t>(product) < threshold) product = uint64_t{next32()} * bound;
    }
    return static_cast<uint32_t>(product >> 32);
  }

 private:
  // No `using`: nvcc takes none with __extension__.
  __extension__ typedef unsigned __int128 Uint128;

  [[nodiscard]] constexpr uint64_t below64(uint64_t bound) {
    Uint128 product = Uint128{next64()} * bound;
    if (static_cast<uint64_t>(product) < bound) {
      const uint64_t threshold = (0U - bound) % bound;
      while (static_cast<uint64_t>(product) < threshold) product = Uint128{next64()} * bound;
    }
    return static_cast<uint64_t>(product >> 64);
  }

  constexpr void refill() {
    words_ = Philox4x32::block(counter_, key_);
    ++counter_[2];
    used_ = 0;
  }

  Philox4x32::Key key_;
  Philox4x32::Counter counter_;
  Philox4x32::Counter words_{};
  uint32_t used_ = 4;
};

}  // namespace gnn::sampling::core
