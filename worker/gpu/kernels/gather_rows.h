#pragma once

#include "worker/gpu/kernels/host_device.h"

#include <cstddef>
#include <cstdint>

namespace gnn::gpu {

/// Rows of equal length, the first of which (the hottest) may lie elsewhere than all of them do.
struct RowsView {
  const std::byte* hot = nullptr;  ///< the first hot_rows; null where there are none
  int64_t hot_rows = 0;
  const std::byte* all = nullptr;  ///< all rows; null where all are hot
};

/// The words in which rows are copied: as wide as their length and place allow.
struct alignas(16) Word16 {
  uint32_t parts[4];
};

/// Copies row ids[i] to row i of `out`. A row is copied by `lanes` threads side by side, so that
/// what they read of it is one stretch; each thread has a word of several rows under way.
template <class Word>
struct GatherRows {
  static constexpr int kRowsAtOnce = 4;

  RowsView rows{};
  const int64_t* ids = nullptr;
  int64_t size = 0;
  int64_t words = 0;  ///< of a row
  int lanes = 1;      ///< a power of two, at most a warp's
  Word* out = nullptr;

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    const int64_t place = thread.block() * thread.block_size() + thread.index();
    const int lane = static_cast<int>(place & (lanes - 1));
    const int64_t groups = thread.num_blocks() * thread.block_size() / lanes;
    for (int64_t first = place / lanes; first < size; first += groups * kRowsAtOnce) {
      for (int64_t word = lane; word < words; word += lanes) copy(first, groups, word);
    }
  }

 private:
  GNN_HOST_DEVICE void copy(int64_t first, int64_t step, int64_t word) const {
    Word values[kRowsAtOnce];
    for (int row = 0; row < kRowsAtOnce; ++row) {
      const int64_t at = first + row * step;
      if (at < size) values[row] = row_at(ids[at])[word];
    }
    for (int row = 0; row < kRowsAtOnce; ++row) {
      const int64_t at = first + row * step;
      if (at < size) out[at * words + word] = values[row];
    }
  }
  GNN_HOST_DEVICE const Word* row_at(int64_t id) const {
    const std::byte* const table = id < rows.hot_rows ? rows.hot : rows.all;
    // reinterpret_cast: rows are copied as words, whatever their type.
    return reinterpret_cast<const Word*>(table) + id * words;
  }
};

/// The threads that copy a row of so many words.
[[nodiscard]] constexpr int lanes_for(int64_t words) {
  int lanes = 1;
  while (lanes < 32 && lanes < words) lanes *= 2;
  return lanes;
}

/// Calls with_word(Word{}) with the widest word that divides the rows' length and all the places.
template <class WithWord>
auto with_word_of(
    const RowsView& rows, size_t row_bytes, const std::byte* out, const WithWord& with_word
) {
  // reinterpret_cast: their bits alone are of interest.
  const auto bits = reinterpret_cast<uintptr_t>(rows.hot) | reinterpret_cast<uintptr_t>(rows.all) |
                    reinterpret_cast<uintptr_t>(out) | row_bytes;
  if (bits % 16 == 0) return with_word(Word16{});
  if (bits % 8 == 0) return with_word(uint64_t{});
  if (bits % 4 == 0) return with_word(uint32_t{});
  if (bits % 2 == 0) return with_word(uint16_t{});
  return with_word(uint8_t{});
}

}  // namespace gnn::gpu
