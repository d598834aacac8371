#pragma once

#include "common/result.h"
#include "worker/gpu/kernels/gather_rows.h"
#include "worker/gpu/stream.h"

#include <cstddef>
#include <cstdint>

namespace gnn::gpu {

/// Copies row ids[i] to row i of `out`, rows being row_bytes apart.
struct GatherTask {
  RowsView rows{};  ///< in memory of the GPU, or pinned memory of the host
  size_t row_bytes = 0;
  const int64_t* ids = nullptr;  ///< [size], in memory of the GPU; the caller has checked them
  int64_t size = 0;
  std::byte* out = nullptr;  ///< [size * row_bytes], in memory of the GPU
  /// Threads that read at once; 0: as many as the GPU runs. Host memory is read nearly as fast by
  /// fewer, which leaves the GPU to others.
  int64_t most_reading_threads = 0;
};

/// Begins the copy on `stream` of the current GPU and returns.
/// Errors: Configuration in a build without CUDA kernels; Internal with CUDA's reason.
[[nodiscard]] Status gather_rows(const GatherTask& task, Stream stream);

}  // namespace gnn::gpu
