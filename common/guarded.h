#pragma once

#include "common/clock.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

namespace gnn {

/// A value that can be reached only while its mutex is held.
template <class T>
class Guarded {
 public:
  /// Holds the lock for its lifetime.
  class Locked {
   public:
    [[nodiscard]] T& operator*() const { return *value_; }
    [[nodiscard]] T* operator->() const { return value_; }

    /// Waits until `ready(value)` or `deadline`; returns ready(value).
    template <class Predicate>
    bool wait_until(Clock& clock, MonotonicPoint deadline, Predicate ready) {
      return clock.wait_until(lock_, *changed_, deadline, [&] { return ready(*value_); });
    }

    /// Waits until `ready(value)`.
    template <class Predicate>
    void wait(Predicate ready) {
      changed_->wait(lock_, [&] { return ready(*value_); });
    }

   private:
    friend class Guarded;
    Locked(std::mutex& mutex, std::condition_variable& changed, T& value)
        : lock_(mutex), changed_(&changed), value_(&value) {}

    std::unique_lock<std::mutex> lock_;
    std::condition_variable* changed_;
    T* value_;
  };

  Guarded() = default;
  explicit Guarded(T value) : value_(std::move(value)) {}

  [[nodiscard]] Locked lock() { return Locked(mutex_, changed_, value_); }

  /// Wakes one, or all, of the threads that wait in a Locked.
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  T value_{};
};

}  // namespace gnn
