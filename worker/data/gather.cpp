#include "worker/data/gather.h"

#include "common/bfloat16.h"
#include "common/instruction_sets.h"

#include <algorithm>
#include <cstring>

namespace gnn::data {

namespace {

constexpr size_t kLineBytes = 64;
constexpr size_t kAheadBytes =
    4096;  // prefetched but not yet copied: what one core keeps in flight
constexpr size_t kPieceBytes = size_t{1} << 20;  // a thread's share of a parallel gather

GNN_INLINE void prefetch_row(const std::byte* row, size_t row_bytes) {
  for (size_t offset = 0; offset < row_bytes; offset += kLineBytes) {
    __builtin_prefetch(row + offset, 0, 0);
  }
  __builtin_prefetch(row + row_bytes - 1, 0, 0);
}

GNN_INLINE void round_rows(
    const float* rows, size_t width, std::span<const int64_t> ids, uint16_t* out
) {
  const size_t row_bytes = width * sizeof(float);
  const size_t ahead = std::clamp<size_t>(kAheadBytes / row_bytes, 1, 64);
  const auto row = [&](size_t i) { return rows + static_cast<size_t>(ids[i]) * width; };
  const auto prefetch = [&](size_t i) {
    prefetch_row(reinterpret_cast<const std::byte*>(row(i)), row_bytes);
  };
  for (size_t i = 0; i < std::min(ahead, ids.size()); ++i) prefetch(i);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + ahead < ids.size()) prefetch(i + ahead);
    const float* const from = row(i);
    uint16_t* const to = out + i * width;
    for (size_t k = 0; k < width; ++k) to[k] = float_to_bfloat16(from[k]);
  }
}

GNN_AVX2 void round_rows_avx2(
    const float* rows, size_t width, std::span<const int64_t> ids, uint16_t* out
) {
  round_rows(rows, width, ids, out);
}

}  // namespace

int64_t first_out_of_range(std::span<const int64_t> ids, int64_t num_rows) {
  // Branch-free, since the answer is almost always "none".
  bool any = false;
  for (const int64_t id : ids) any |= static_cast<uint64_t>(id) >= static_cast<uint64_t>(num_rows);
  if (!any) return -1;
  const auto bad = std::find_if(ids.begin(), ids.end(), [num_rows](int64_t id) {
    return id < 0 || id >= num_rows;
  });
  return bad - ids.begin();
}

void gather_rows(
    const std::byte* rows, size_t row_bytes, std::span<const int64_t> ids, std::byte* out
) {
  if (ids.empty() || row_bytes == 0) return;
  const size_t ahead = std::clamp<size_t>(kAheadBytes / row_bytes, 1, 64);
  const auto row = [&](size_t i) { return rows + static_cast<size_t>(ids[i]) * row_bytes; };
  for (size_t i = 0; i < std::min(ahead, ids.size()); ++i) prefetch_row(row(i), row_bytes);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + ahead < ids.size()) prefetch_row(row(i + ahead), row_bytes);
    // Plain stores: non-temporal ones were slower where measured (docs/benchmarks.md).
    std::memcpy(out + i * row_bytes, row(i), row_bytes);
  }
}

void gather_rows_as_bfloat16(
    const float* rows, size_t width, std::span<const int64_t> ids, uint16_t* out
) {
  if (width == 0) return;
  if (has_avx2()) return round_rows_avx2(rows, width, ids, out);
  round_rows(rows, width, ids, out);
}

void gather_rows(std::span<const std::byte* const> rows, size_t row_bytes, std::byte* out) {
  if (rows.empty() || row_bytes == 0) return;
  const size_t ahead = std::clamp<size_t>(kAheadBytes / row_bytes, 1, 64);
  for (size_t i = 0; i < std::min(ahead, rows.size()); ++i) {
    if (rows[i] != nullptr) prefetch_row(rows[i], row_bytes);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + ahead < rows.size() && rows[i + ahead] != nullptr)
      prefetch_row(rows[i + ahead], row_bytes);
    if (rows[i] != nullptr) std::memcpy(out + i * row_bytes, rows[i], row_bytes);
  }
}

void gather_rows(
    const std::byte* rows,
    size_t row_bytes,
    std::span<const int64_t> ids,
    std::byte* out,
    ThreadPool& pool
) {
  if (ids.empty() || row_bytes == 0) return;
  const auto grain = static_cast<int64_t>(std::max<size_t>(1, kPieceBytes / row_bytes));
  pool.parallel_for(static_cast<int64_t>(ids.size()), grain, [&](int64_t begin, int64_t end) {
    const auto first = static_cast<size_t>(begin);
    const auto count = static_cast<size_t>(end - begin);
    gather_rows(rows, row_bytes, ids.subspan(first, count), out + first * row_bytes);
  });
}

}  // namespace gnn::data
