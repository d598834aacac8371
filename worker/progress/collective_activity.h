#pragma once

#include <atomic>
#include <cstdint>

namespace gnn::progress {

/// Tells a rank's agent whether the rank waits for others: when a job hangs, the rank to blame is
/// in no collective, or in an earlier one than the rest.
/// Threads: any. The counters are compared only with each other and with older readings, so relaxed
/// order is enough.
class CollectiveActivity {
 public:
  void started() { started_.fetch_add(1, std::memory_order_relaxed); }
  void finished() { finished_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] int64_t done() const { return finished_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool waiting() const { return started_.load(std::memory_order_relaxed) > done(); }

 private:
  std::atomic<int64_t> started_{0};
  std::atomic<int64_t> finished_{0};
};

}  // namespace gnn::progress
