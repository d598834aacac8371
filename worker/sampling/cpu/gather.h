#pragma once

#include "common/thread_pool.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace gnn::sampling::cpu {

/// Position of the first id outside [0, num_rows), or -1.
[[nodiscard]] int64_t first_out_of_range(std::span<const int64_t> ids, int64_t num_rows);

/// Copies rows[ids[i]] to out[i]; rows lie row_bytes apart. The ids must have been checked. Rows
/// are prefetched ahead of their turn.
void gather_rows(
    const std::byte* rows, size_t row_bytes, std::span<const int64_t> ids, std::byte* out
);

/// The same on the calling thread and the free threads of `pool`.
void gather_rows(
    const std::byte* rows,
    size_t row_bytes,
    std::span<const int64_t> ids,
    std::byte* out,
    ThreadPool& pool
);

}  // namespace gnn::sampling::cpu
