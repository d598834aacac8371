#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace gnn {

using Duration = std::chrono::nanoseconds;
/// Wall-clock time, for users and the API server.
using TimePoint = std::chrono::sys_time<Duration>;
/// Monotonic time, for deadlines and measurements; changes of the wall clock do not affect it.
using MonotonicPoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// Source of the time; tests replace it.
/// Threads: every method may be called from any thread.
class Clock {
 public:
  virtual ~Clock() = default;

  [[nodiscard]] virtual TimePoint now() const = 0;
  [[nodiscard]] virtual MonotonicPoint monotonic() const = 0;

  /// Waits on `condition` until `ready()` or `deadline`; returns ready(). `lock` is held on return,
  /// as by std::condition_variable::wait_until.
  virtual bool wait_until(
      std::unique_lock<std::mutex>& lock,
      std::condition_variable& condition,
      MonotonicPoint deadline,
      const std::function<bool()>& ready
  ) = 0;
};

/// The machine's clocks.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override;
  [[nodiscard]] MonotonicPoint monotonic() const override;
  bool wait_until(
      std::unique_lock<std::mutex>& lock,
      std::condition_variable& condition,
      MonotonicPoint deadline,
      const std::function<bool()>& ready
  ) override;
};

}  // namespace gnn
