#pragma once

#include "common/result.h"
#include "worker/loader/loader_stats.h"

#include <cstdint>
#include <optional>

namespace gnn::loader {

/// A rank's batches in the order of its epochs, wherever they are made.
/// Threads: one reader.
template <class Batch>
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /// Batches of this rank in each epoch.
  [[nodiscard]] virtual int64_t num_batches() const = 0;
  /// Starts an epoch at batch `first_batch` (where a resumed run goes on) and ends the one under
  /// way. Resets stats().
  virtual Status start_epoch(int64_t epoch, int64_t first_batch = 0) = 0;
  /// The next batch, or std::nullopt after the epoch's last.
  /// Errors: those of making it; Cancelled after stop().
  [[nodiscard]] virtual Result<std::optional<Batch>> next() = 0;
  /// Ends the epoch under way from any thread: a waiting next() returns Cancelled.
  virtual void stop() = 0;

  [[nodiscard]] virtual LoaderStats stats() const = 0;
};

}  // namespace gnn::loader
