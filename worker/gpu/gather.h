#pragma once

#include "common/result.h"
#include "worker/gpu/kernels/gather_steps.h"
#include "worker/gpu/stream.h"

#include <cstdint>
#include <memory>
#include <span>

namespace gnn::gpu {

/// Begins the copy on `stream` of the current GPU and returns. The caller has checked the ids where
/// the task has no first_bad.
/// Errors: Configuration in a build without CUDA kernels; Internal with CUDA's reason.
[[nodiscard]] Status gather_rows(const GatherTask& task, Stream stream);

/// GatherSteps on a stream: for several batches at a time use several, each with a stream of its own.
/// Threads: one at a time. It uses the GPU that was current when it was made.
class RowGatherer {
 public:
  /// Errors: Configuration in a build without CUDA kernels.
  [[nodiscard]] static Result<RowGatherer> create(Stream stream);
  ~RowGatherer();
  RowGatherer(RowGatherer&&) noexcept;
  RowGatherer& operator=(RowGatherer&&) noexcept;

  /// GatherSteps::begin() and finish().
  /// Errors: OutOfMemory; Internal with CUDA's reason.
  [[nodiscard]] Result<int64_t> gather(
      const GatherTask& task, std::span<const int64_t> host_ids, const ReceivedRows& received
  );

 private:
  class Impl;
  explicit RowGatherer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace gnn::gpu
