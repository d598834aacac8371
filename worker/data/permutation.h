#pragma once

#include "worker/data/counter_random.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace gnn::data {

/// The numbers 0 .. size-1 in a random order that takes no memory, in both directions: a Feistel
/// network over a power of two, repeated until the result is below `size` (cycle walking; Black,
/// Rogaway 2002).
class Permutation {
 public:
  /// Uses the streams from `first_stream` on, one per round.
  Permutation(int64_t size, uint64_t seed, uint64_t first_stream);

  /// The number at `place`, in [0, size).
  [[nodiscard]] int64_t at(int64_t place) const;
  /// Where `number` is: the inverse of at().
  [[nodiscard]] int64_t place_of(int64_t number) const;

 private:
  // Even, so that the halves, which change places in each round, have their own widths again.
  static constexpr size_t kRounds = 4;

  [[nodiscard]] uint64_t forward(uint64_t value) const;
  [[nodiscard]] uint64_t backward(uint64_t value) const;

  uint64_t size_;
  uint32_t low_bits_;
  uint32_t high_bits_;
  std::array<CounterRandom, kRounds> rounds_;
};

}  // namespace gnn::data
