#include "worker/sampling/cpu/gather.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace gnn::sampling::cpu {

namespace {

constexpr size_t kLineBytes = 64;
constexpr size_t kAheadBytes = 4096;  // prefetched and not yet copied: what one core has in flight
constexpr size_t kPieceBytes = size_t{1} << 20;    // a thread's share of a parallel gather
constexpr size_t kStreamBytes = size_t{16} << 20;  // results from here on go past the caches
constexpr size_t kStageBytes = 4096;  // of a row stream; a part of the first-level cache

void prefetch_row(const std::byte* row, size_t row_bytes) {
  for (size_t offset = 0; offset < row_bytes; offset += kLineBytes) {
    __builtin_prefetch(row + offset, 0, 0);
  }
  __builtin_prefetch(row + row_bytes - 1, 0, 0);
}

/// Writes bytes one after the other through the caches.
class CachedWriter {
 public:
  explicit CachedWriter(std::byte* out) : out_(out) {}
  void append(const std::byte* bytes, size_t count) {
    std::memcpy(out_, bytes, count);
    out_ += count;
  }
  void finish() {}

 private:
  std::byte* out_;
};

#if defined(__x86_64__)

/// Writes bytes one after the other past the caches, which saves reading the lines that are
/// overwritten. Rows meet in a buffer first: lines must leave whole and at once, because a line
/// that waits for the next row's miss is written in pieces, at a fraction of the speed.
class StreamWriter {
 public:
  explicit StreamWriter(std::byte* out)
      : skip_(reinterpret_cast<uintptr_t>(out) % kLineBytes), line_(out - skip_), fill_(skip_) {}

  void append(const std::byte* bytes, size_t count) {
    while (count > 0) {
      const size_t taken = std::min(count, kStageBytes - fill_);
      std::memcpy(stage_ + fill_, bytes, taken);
      fill_ += taken;
      bytes += taken;
      count -= taken;
      if (fill_ == kStageBytes) flush();
    }
  }

  void finish() {
    std::memcpy(line_ + skip_, stage_ + skip_, fill_ - skip_);
    _mm_sfence();  // whoever learns that the rows are there sees them
  }

 private:
  void flush() {
    size_t at = 0;
    if (skip_ > 0) {  // the first line belongs to others in part
      std::memcpy(line_ + skip_, stage_ + skip_, kLineBytes - skip_);
      skip_ = 0;
      at = kLineBytes;
    }
    for (; at < kStageBytes; at += kLineBytes) stream_line(at);
    line_ += kStageBytes;
    fill_ = 0;
  }

  void stream_line(size_t at) {
    // reinterpret_cast: the intrinsics' vector type may alias any other.
    const auto* from = reinterpret_cast<const __m128i*>(stage_ + at);
    auto* to = reinterpret_cast<__m128i*>(line_ + at);
    const __m128i first = _mm_load_si128(from);
    const __m128i second = _mm_load_si128(from + 1);
    const __m128i third = _mm_load_si128(from + 2);
    const __m128i fourth = _mm_load_si128(from + 3);
    _mm_stream_si128(to, first);
    _mm_stream_si128(to + 1, second);
    _mm_stream_si128(to + 2, third);
    _mm_stream_si128(to + 3, fourth);
  }

  alignas(kLineBytes) std::byte stage_[kStageBytes];
  size_t skip_;      // bytes before the result in its first line; 0 once that is written
  std::byte* line_;  // where stage_ goes
  size_t fill_;
};

#else
using StreamWriter = CachedWriter;
#endif

template <class Writer>
void gather_with(
    Writer writer, const std::byte* rows, size_t row_bytes, std::span<const int64_t> ids
) {
  const size_t ahead = std::clamp<size_t>(kAheadBytes / row_bytes, 1, 64);
  const auto row = [&](size_t i) { return rows + static_cast<size_t>(ids[i]) * row_bytes; };
  for (size_t i = 0; i < std::min(ahead, ids.size()); ++i) prefetch_row(row(i), row_bytes);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + ahead < ids.size()) prefetch_row(row(i + ahead), row_bytes);
    writer.append(row(i), row_bytes);
  }
  writer.finish();
}

void gather_part(
    const std::byte* rows,
    size_t row_bytes,
    std::span<const int64_t> ids,
    std::byte* out,
    size_t whole_bytes
) {
  if (whole_bytes < kStreamBytes) return gather_with(CachedWriter(out), rows, row_bytes, ids);
  gather_with(StreamWriter(out), rows, row_bytes, ids);
}

}  // namespace

int64_t first_out_of_range(std::span<const int64_t> ids, int64_t num_rows) {
  // One pass without branches, as the answer is almost always "none".
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
  gather_part(rows, row_bytes, ids, out, ids.size() * row_bytes);
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
    gather_part(
        rows, row_bytes, ids.subspan(first, count), out + first * row_bytes, ids.size() * row_bytes
    );
  });
}

}  // namespace gnn::sampling::cpu
