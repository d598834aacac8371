#pragma once

#include "common/clock.h"

#include <chrono>
#include <cstdint>

namespace gnn::agent {

/// An agent's supervising thread turns a few times a second. One that has not for this long hangs.
constexpr auto kLongestTurn = std::chrono::milliseconds(3'000);

/// Tells from a sign that changes with each turn of a thread whether that thread hangs. Times are
/// RunningTime, so that a freeze of the whole process is no hang.
/// Threads: one thread.
class Stillness {
 public:
  Stillness(MonotonicPoint now, Duration limit) : limit_(limit), changed_at_(now) {}

  /// `sign`: for example how often the thread has turned.
  bool hangs(int64_t sign, MonotonicPoint now) {
    if (sign != sign_) changed_at_ = now;
    sign_ = sign;
    return now - changed_at_ > limit_;
  }

 private:
  Duration limit_;
  int64_t sign_ = 0;
  MonotonicPoint changed_at_;
};

}  // namespace gnn::agent
