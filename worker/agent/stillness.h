#pragma once

#include "common/clock.h"
#include "worker/agent/running_time.h"

#include <chrono>
#include <cstdint>

namespace gnn::agent {

/// An agent's supervising thread turns a few times a second. One that has not for this long hangs.
constexpr auto kLongestTurn = std::chrono::milliseconds(3'000);

/// Tells from how often a thread has turned whether it hangs. Times in which this process was frozen
/// do not count.
/// Threads: one thread, which calls hangs() several times a second.
class Stillness {
 public:
  Stillness(MonotonicPoint start, Duration limit)
      : limit_(limit), running_(start), turned_at_(start) {}

  /// `turns`: how often the thread has turned so far.
  bool hangs(int64_t turns, MonotonicPoint monotonic) {
    const MonotonicPoint now = running_.advance(monotonic);
    if (turns != turns_) turned_at_ = now;
    turns_ = turns;
    return now - turned_at_ > limit_;
  }

 private:
  Duration limit_;
  RunningTime running_;
  int64_t turns_ = 0;
  MonotonicPoint turned_at_;
};

}  // namespace gnn::agent
