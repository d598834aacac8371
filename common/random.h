#pragma once

#include "common/guarded.h"

#include <cstdint>
#include <random>

namespace gnn {

/// Source of randomness for jitter and names; tests replace it. Sampling and training have their
/// own counter-based generators.
/// Threads: every method may be called from any thread.
class RandomSource {
 public:
  virtual ~RandomSource() = default;

  /// 64 uniform bits.
  [[nodiscard]] virtual uint64_t next() = 0;

  /// Uniform in [0, 1), with 53 bits.
  [[nodiscard]] double uniform() {
    constexpr double kStep = 1.0 / 9007199254740992.0;  // 2^-53
    return static_cast<double>(next() >> 11U) * kStep;
  }
};

/// Seeded from the operating system.
class SystemRandom final : public RandomSource {
 public:
  SystemRandom();
  [[nodiscard]] uint64_t next() override;

 private:
  Guarded<std::mt19937_64> engine_;
};

}  // namespace gnn
