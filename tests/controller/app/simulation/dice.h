#pragma once

#include "common/random.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace gnn::simulation {

/// All that is left to chance in one history, from its seed.
class Dice final : public RandomSource {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}

  [[nodiscard]] uint64_t next() override { return engine_(); }
  [[nodiscard]] bool chance(double probability) { return uniform() < probability; }
  /// In [0, end).
  [[nodiscard]] size_t below(size_t end) { return engine_() % end; }
  /// In [first, last].
  [[nodiscard]] int64_t between(int64_t first, int64_t last) {
    return first + static_cast<int64_t>(below(static_cast<size_t>(last - first + 1)));
  }
  template <class T>
  [[nodiscard]] T pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace gnn::simulation
