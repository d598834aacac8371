#pragma once

#include "worker/sampling/core/rng.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gnn::sampling::core {

/// Draws indices in proportion to fixed weights, each by two random numbers. An index of weight 0 is
/// never drawn; the other probabilities are exact to 2^-32 of the mean weight.
/// Threads: safe to read from any thread.
/// Source: Vose, "A linear algorithm for generating random numbers with a given distribution", 1991.
class AliasTable {
 public:
  /// Weights are finite and at least 0, and one is positive.
  explicit AliasTable(std::span<const double> weights);

  [[nodiscard]] int64_t draw(CounterRng& rng) const {
    const auto index = rng.below(slots_.size());
    const Slot& slot = slots_[index];
    return rng.next32() < slot.threshold ? static_cast<int64_t>(index) : slot.alias;
  }

 private:
  struct Slot {
    uint32_t threshold = 0;  // of 2^32: below it the slot's own index is drawn
    int64_t alias = 0;
  };

  std::vector<Slot> slots_;
};

}  // namespace gnn::sampling::core
