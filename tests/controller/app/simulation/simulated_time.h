#pragma once

#include "common/clock.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace gnn::simulation {

/// The true time of a history, which passes only when the history says so.
class SimulatedTime {
 public:
  [[nodiscard]] TimePoint now() const {
    return TimePoint(std::chrono::seconds(1'800'000'000)) + passed_;
  }
  [[nodiscard]] Duration passed() const { return passed_; }
  void advance(Duration by) { passed_ += by; }

 private:
  Duration passed_{0};
};

/// A machine's clocks; its wall clock may be wrong. Whoever waits lets time pass: there is one thread.
class MachineClock final : public Clock {
 public:
  MachineClock(SimulatedTime& time, Duration ahead) : time_(time), ahead_(ahead) {}

  [[nodiscard]] TimePoint now() const override { return time_.now() + ahead_; }
  [[nodiscard]] MonotonicPoint monotonic() const override {
    return MonotonicPoint(time_.passed() + std::chrono::hours(1));
  }
  bool wait_until(
      std::unique_lock<std::mutex>& /*lock*/,
      std::condition_variable& /*condition*/,
      MonotonicPoint deadline,
      const std::function<bool()>& ready
  ) override {
    if (!ready() && deadline > monotonic()) time_.advance(deadline - monotonic());
    return ready();
  }

 private:
  SimulatedTime& time_;
  const Duration ahead_;
};

}  // namespace gnn::simulation
