#pragma once

#include "common/clock.h"
#include "common/random.h"

#include <cstdint>

namespace gnn {

struct BackoffOptions {
  Duration initial = std::chrono::milliseconds(800);
  double factor = 2.0;
  Duration cap = std::chrono::seconds(30);
  /// Each delay is multiplied by a uniform draw from [1, 1 + jitter).
  double jitter = 1.0;
};

/// The delay before retry number `attempt` (from 0), without jitter:
/// min(initial * factor^attempt, cap).
[[nodiscard]] Duration exponential_delay(const BackoffOptions& options, int64_t attempt);

/// Capped exponential back-off with jitter. The caller decides when to give up.
/// Threads: one thread at a time.
class Backoff {
 public:
  explicit Backoff(BackoffOptions options) : options_(options) {}

  /// The next delay; never above cap * (1 + jitter).
  [[nodiscard]] Duration next(RandomSource& random);
  void reset() { attempt_ = 0; }
  [[nodiscard]] int64_t attempts() const { return attempt_; }

 private:
  BackoffOptions options_;
  int64_t attempt_ = 0;
};

}  // namespace gnn
