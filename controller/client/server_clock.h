#pragma once

#include "common/clock.h"
#include "common/guarded.h"

#include <deque>
#include <optional>
#include <string_view>

namespace gnn::client {

/// The moment that an HTTP header `Date` names; nothing if it is none.
[[nodiscard]] std::optional<TimePoint> parse_http_date(std::string_view text);

/// The API server's wall clock, as far as the dates of its replies show it; until the first one, the
/// machine's at the time of construction. What the API server and the kubelets stamp is compared with
/// this time, so that a machine whose clock is wrong, or jumps, does not take a young pod for an old one.
/// One date decides nothing, since one of several API servers, or a proxy, may be wrong: the time is that
/// of the median of the last dates.
/// Threads: every method may be called from any thread.
class ServerClock final : public Clock {
 public:
  explicit ServerClock(Clock& machine);

  /// Takes note of a reply that came now, `took` after it was asked for, and says it was made at
  /// `date`, in whole seconds. Of many replies in a few seconds one counts, so that a burst of one server's
  /// does not outvote the others.
  void see(TimePoint date, Duration took);

  [[nodiscard]] TimePoint now() const override;

  /// The time, and between which moments it lies for certain: what cannot be undone waits until
  /// `earliest`. Both are `now`, give or take a few seconds, where the machine's own clock agrees, or, once dates
  /// of a minute have come, where four of five of them do. Until then every date counts.
  struct Reading {
    TimePoint now;
    TimePoint earliest;  ///< at most now
    TimePoint latest;    ///< at least now
  };
  [[nodiscard]] Reading read() const;

  [[nodiscard]] MonotonicPoint monotonic() const override;
  bool wait_until(
      std::unique_lock<std::mutex>& lock,
      std::condition_variable& condition,
      MonotonicPoint deadline,
      const std::function<bool()>& ready
  ) override;

 private:
  /// Between which times the monotonic clock's zero lies by one reply.
  struct Sample {
    TimePoint zero_from;
    TimePoint zero_to;
    MonotonicPoint came;
  };
  struct State {
    TimePoint zero;  ///< the time at the monotonic clock's zero
    std::deque<Sample> samples{};
  };

  Clock& machine_;
  mutable Guarded<State> state_;
};

}  // namespace gnn::client
