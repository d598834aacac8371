#pragma once

#include "common/clock.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>

namespace gnn::runtime {

/// How much later than expected a thread may show itself. Longer than any step that ends by itself:
/// a call to the API server with all its retries takes up to four minutes.
inline constexpr Duration kHeartbeatPatience = std::chrono::minutes(5);

/// Tells a thread that runs from one that stands still: the thread says by when it will show itself
/// again.
/// Threads: safe from any thread. Relaxed order is enough: only the value itself matters.
class Heartbeat {
 public:
  explicit Heartbeat(const Clock& clock) : clock_(clock) {}

  /// Called by the thread before a step that takes at most `step`, by its own reckoning.
  void beat(Duration step = Duration::zero()) {
    const MonotonicPoint next = clock_.monotonic() + step + kHeartbeatPatience;
    next_.store(next.time_since_epoch().count(), std::memory_order_relaxed);
  }

  /// Called when the thread ends: nothing is expected of it any more.
  void rest() { next_.store(kNever, std::memory_order_relaxed); }

  /// Whether the thread is overdue. Not before its first beat.
  [[nodiscard]] bool stands_still() const {
    return clock_.monotonic().time_since_epoch().count() > next_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  const Clock& clock_;
  std::atomic<int64_t> next_{kNever};  // in nanoseconds of the monotonic clock
};

}  // namespace gnn::runtime
