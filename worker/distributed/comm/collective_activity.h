#pragma once

#include <atomic>
#include <cstdint>

namespace gnn::comm {

/// Whether a rank now waits for others, for whoever supervises it: when a job hangs, the rank that
/// hangs is the one that is not in a collective, or in an earlier one than the rest. Threading: the
/// counters are only ever compared with each other and with older readings, so relaxed order is
/// enough.
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

}  // namespace gnn::comm
