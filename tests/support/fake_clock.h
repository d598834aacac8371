#pragma once

#include "common/clock.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace gnn::testing {

/// A clock that moves only when a test says so. Waiters wake when their deadline is passed by
/// advance().
/// Threads: every method may be called from any thread.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(TimePoint start = TimePoint(std::chrono::seconds(1'700'000'000)))
      : wall_(start) {}

  [[nodiscard]] TimePoint now() const override {
    const std::lock_guard lock(mutex_);
    return wall_;
  }
  [[nodiscard]] MonotonicPoint monotonic() const override {
    const std::lock_guard lock(mutex_);
    return monotonic_;
  }

  bool wait_until(
      std::unique_lock<std::mutex>& lock,
      std::condition_variable& condition,
      MonotonicPoint deadline,
      const std::function<bool()>& ready
  ) override {
    Waiter waiter{lock.mutex(), &condition};
    {
      const std::lock_guard own(mutex_);
      waiters_.push_back(&waiter);
      waiters_changed_.notify_all();
    }
    condition.wait(lock, [&] { return ready() || monotonic() >= deadline; });
    // advance() may be about to take the waiter's mutex: stay until it is through, without holding
    // it.
    lock.unlock();
    {
      std::unique_lock own(mutex_);
      waiters_changed_.wait(own, [&] { return advancing_ == 0; });
      std::erase(waiters_, &waiter);
      waiters_changed_.notify_all();
    }
    lock.lock();
    return ready();
  }

  /// Moves both clocks and wakes those who wait.
  void advance(Duration by) {
    std::vector<Waiter> waiters;
    {
      const std::lock_guard lock(mutex_);
      wall_ += by;
      monotonic_ += by;
      ++advancing_;
      for (const Waiter* waiter : waiters_) waiters.push_back(*waiter);
    }
    for (const Waiter& waiter : waiters) {
      // Taking the waiter's mutex makes sure that it is either before its check or inside its wait.
      { const std::lock_guard lock(*waiter.mutex); }
      waiter.condition->notify_all();
    }
    const std::lock_guard lock(mutex_);
    --advancing_;
    waiters_changed_.notify_all();
  }

  /// Moves the wall clock alone, as an administrator or NTP does.
  void jump_wall(Duration by) {
    const std::lock_guard lock(mutex_);
    wall_ += by;
  }

  /// Blocks until `count` threads wait on this clock.
  void await_waiters(size_t count) {
    std::unique_lock lock(mutex_);
    waiters_changed_.wait(lock, [&] { return waiters_.size() >= count; });
  }

 private:
  struct Waiter {
    std::mutex* mutex;
    std::condition_variable* condition;
  };

  mutable std::mutex mutex_;
  std::condition_variable waiters_changed_;
  TimePoint wall_;
  MonotonicPoint monotonic_{};
  std::vector<Waiter*> waiters_;
  int advancing_ = 0;
};

}  // namespace gnn::testing
