#pragma once

#include "common/result.h"

#include <cstdint>
#include <string>

namespace gnn::data {

/// How a command that makes a data set divides the memory that it may take.
struct MemoryPlan {
  int64_t step_bytes = int64_t{2} << 30;     ///< of one step of making an array
  int64_t scratch_bytes = int64_t{2} << 30;  ///< of scratch arrays that stay out of files
  int64_t mapped_bytes = int64_t{1} << 30;   ///< of mapped files, beyond what is mapped before
};

/// Divides `bytes`, of which this process has `resident` already. The parts come to nine sixteenths of
/// the rest: readers have buffers, and steps take memory for their book-keeping.
/// Errors: Configuration if less than kLeastMemory is left beside `resident`.
Result<MemoryPlan> plan_memory(int64_t bytes, int64_t resident);

/// Below this, files would be read and written in pieces too small to be worth it.
inline constexpr int64_t kLeastMemory = int64_t{64} << 20;

/// "1.5 GiB", "64 MiB" or "12 bytes"
std::string bytes_text(int64_t bytes);

}  // namespace gnn::data
