#pragma once

#include "common/clock.h"
#include "common/running_time.h"

#include <algorithm>

namespace gnn::rpc {

/// Tells of one connection when to send a heartbeat, and when its peer is lost. Time in which this
/// process did not run is nobody's silence.
/// Threads: one thread.
class Liveness {
 public:
  struct Traffic {
    /// We read: a peer that sends nothing may be blamed for it.
    bool reads = true;
    /// We have bytes that the kernel has not taken yet; no heartbeat is needed then.
    bool writes = false;
    /// The peer must always take our bytes: it may be blamed for taking none.
    bool must_take = false;
  };
  enum class Verdict { Well, Heartbeat, Silent, TakesNothing };

  Liveness(MonotonicPoint now, Duration limit)
      : running_(now), limit_(limit), heard_(now), sent_(now), now_(now) {}

  /// Time between two calls of look(): a few times as often as anything has to be found out, and as
  /// RunningTime needs it.
  [[nodiscard]] static Duration interval(Duration limit) {
    return std::min<Duration>(limit / 20, RunningTime::kLongestStep / 5);
  }

  /// Bytes came from the peer.
  void heard() { heard_ = now_; }
  /// Bytes went into the kernel's buffer, or the first of some to send are there.
  void sent() { sent_ = now_; }

  /// Called each interval().
  [[nodiscard]] Verdict look(MonotonicPoint monotonic, const Traffic& traffic) {
    now_ = running_.advance(monotonic);
    if (!traffic.reads) heard_ = now_;
    if (now_ - heard_ > limit_) return Verdict::Silent;
    if (traffic.writes && traffic.must_take && now_ - sent_ > limit_) return Verdict::TakesNothing;
    return !traffic.writes && now_ - sent_ >= limit_ / 4 ? Verdict::Heartbeat : Verdict::Well;
  }

 private:
  RunningTime running_;
  Duration limit_;
  MonotonicPoint heard_;
  MonotonicPoint sent_;
  MonotonicPoint now_;
};

}  // namespace gnn::rpc
