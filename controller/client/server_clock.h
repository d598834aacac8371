#pragma once

#include "common/clock.h"
#include "common/guarded.h"

#include <optional>
#include <string_view>

namespace gnn::client {

/// The moment that an HTTP header `Date` names; nothing if it is none.
[[nodiscard]] std::optional<TimePoint> parse_http_date(std::string_view text);

/// The API server's wall clock, as far as its replies show it; until the first one, the machine's at
/// the time of construction. What the API server and the kubelets stamp is compared with this time,
/// so that a machine whose clock is wrong, or jumps, does not take a young pod for an old one.
/// Threads: every method may be called from any thread.
class ServerClock final : public Clock {
 public:
  explicit ServerClock(Clock& machine);

  /// Takes note of a reply that came now, `took` after it was asked for, and says it was made at
  /// `date`, in whole seconds.
  void see(TimePoint date, Duration took);

  [[nodiscard]] TimePoint now() const override;
  [[nodiscard]] MonotonicPoint monotonic() const override;
  bool wait_until(
      std::unique_lock<std::mutex>& lock,
      std::condition_variable& condition,
      MonotonicPoint deadline,
      const std::function<bool()>& ready
  ) override;

 private:
  Clock& machine_;
  /// The time at the monotonic clock's zero.
  mutable Guarded<TimePoint> zero_;
};

}  // namespace gnn::client
