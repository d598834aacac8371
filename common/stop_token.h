#pragma once

#include <atomic>

namespace gnn {

/// Asks a running training to stop at the next step that all ranks agree on.
/// Threads: safe from any thread and from a signal handler.
class StopToken {
 public:
  void request() noexcept { requested_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool requested() const noexcept {
    return requested_.load(std::memory_order_relaxed);
  }

 private:
  // Relaxed: the flag orders nothing; the step reduction is what makes the ranks agree.
  std::atomic<bool> requested_{false};
};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

}  // namespace gnn
