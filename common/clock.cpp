#include "common/clock.h"

namespace gnn {

TimePoint SystemClock::now() const {
  return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
}

MonotonicPoint SystemClock::monotonic() const {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

bool SystemClock::wait_until(
    std::unique_lock<std::mutex>& lock,
    std::condition_variable& condition,
    MonotonicPoint deadline,
    const std::function<bool()>& ready
) {
  // libstdc++ adds the deadline to "now" of another clock, which overflows for
  // MonotonicPoint::max().
  constexpr auto kFarFuture = std::chrono::hours(24 * 365);
  const auto latest = monotonic() + kFarFuture;
  return condition.wait_until(lock, deadline < latest ? deadline : latest, ready);
}

}  // namespace gnn
