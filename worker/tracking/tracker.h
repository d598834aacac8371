#pragma once

#include "common/clock.h"
#include "common/result.h"
#include "worker/tracking/record.h"

#include <span>

namespace gnn::tracking {

/// How a rank's work ended.
enum class RunEnd { Done, Stopped, Failed };

/// A program, or a file that it reads, in which people watch trainings.
/// Threads: one thread.
class Tracker {
 public:
  virtual ~Tracker() = default;
  /// Returns by `deadline`, as far as that is in its power.
  /// Errors: Network or Timeout if another try with the same records may help; otherwise they are lost.
  [[nodiscard]] virtual Status write(std::span<const Record> records, MonotonicPoint deadline) = 0;
  /// Comes last, and once.
  [[nodiscard]] virtual Status close(RunEnd end, MonotonicPoint deadline) = 0;
};

}  // namespace gnn::tracking
