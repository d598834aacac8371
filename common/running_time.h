#pragma once

#include "common/clock.h"

#include <algorithm>
#include <chrono>

namespace gnn {

/// A monotonic time that stands still while this process does, stopped by a signal or with its whole
/// machine. Silence is measured in it: who was frozen has heard nobody, and blames nobody for that.
/// Threads: one thread, which calls advance() several times a second.
class RunningTime {
 public:
  /// What counts of the time between two calls. A longer one was a freeze.
  static constexpr auto kLongestStep = std::chrono::milliseconds(500);

  explicit RunningTime(MonotonicPoint start) : last_(start), now_(start) {}

  MonotonicPoint advance(MonotonicPoint monotonic) {
    now_ += std::min<Duration>(monotonic - last_, kLongestStep);
    last_ = monotonic;
    return now_;
  }

 private:
  MonotonicPoint last_;
  MonotonicPoint now_;
};

}  // namespace gnn
