#pragma once

#include "common/thread_pool.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace gnn::data {

/// Position of the first id outside [0, num_rows), or -1.
[[nodiscard]] int64_t first_out_of_range(std::span<const int64_t> ids, int64_t num_rows);

/// Copies row ids[i] to row i of `out`, rows being row_bytes apart and prefetched. The caller has
/// checked the ids (first_out_of_range).
void gather_rows(
    const std::byte* rows, size_t row_bytes, std::span<const int64_t> ids, std::byte* out
);

/// The same for rows of `width` floats, which it rounds to bfloat16.
void gather_rows_as_bfloat16(
    const float* rows, size_t width, std::span<const int64_t> ids, uint16_t* out
);

/// Copies the row at rows[i] to row i of `out`, rows being row_bytes long and prefetched. Null: leaves
/// that row as it is.
void gather_rows(std::span<const std::byte* const> rows, size_t row_bytes, std::byte* out);

/// As the first, on the calling thread and the idle threads of `pool`.
void gather_rows(
    const std::byte* rows,
    size_t row_bytes,
    std::span<const int64_t> ids,
    std::byte* out,
    ThreadPool& pool
);

}  // namespace gnn::data
