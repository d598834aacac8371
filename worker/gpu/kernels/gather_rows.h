#pragma once

#include "common/bfloat16.h"
#include "worker/gpu/kernels/host_device.h"

#include <cstddef>
#include <cstdint>
#include <limits>

namespace gnn::gpu {

/// Where the rows of ids lie, which are of equal length. Some (the hottest) may lie elsewhere than the
/// others, and there alone, or there too.
struct RowsView {
  /// Null where there are none.
  const std::byte* hot = nullptr;
  int64_t hot_rows = 0;  ///< without `places`: those of the first so many ids
  /// [num_ids]: an id's row in `hot`, or -1; null: see hot_rows.
  const int32_t* places = nullptr;
  /// Those of the ids in [first, end); null where all are hot.
  const std::byte* all = nullptr;
  int64_t first = 0;
  int64_t end = std::numeric_limits<int64_t>::max();
  int64_t num_ids = std::numeric_limits<int64_t>::max();  ///< those from 0 on

  /// The row of an id in `hot`, or -1.
  [[nodiscard]] GNN_HOST_DEVICE int64_t place_of(int64_t id) const {
    if (places != nullptr) return places[id];
    return id < hot_rows ? id : -1;
  }
  [[nodiscard]] GNN_HOST_DEVICE bool is_in_all(int64_t id) const {
    return all != nullptr && id >= first && id < end;
  }
};

/// What RowsView::all holds.
enum class StoredRows {
  AsGathered,
  Floats,  ///< to be rounded to bfloat16; RowsView::hot is rounded
};

/// The words in which rows are copied: as wide as their length and place allow.
struct alignas(16) Word16 {
  uint32_t parts[4];
};

template <size_t kCount>
struct alignas(4 * kCount) Floats {
  float parts[kCount];
};
template <size_t kCount>
struct alignas(2 * kCount) Bfloat16s {
  uint16_t parts[kCount];
};

template <class Word>
[[nodiscard]] GNN_HOST_DEVICE Word as_gathered(const Word& word) {
  return word;
}
template <size_t kCount>
[[nodiscard]] GNN_HOST_DEVICE Bfloat16s<kCount> as_gathered(const Floats<kCount>& word) {
  Bfloat16s<kCount> rounded;
  for (size_t part = 0; part < kCount; ++part)
    rounded.parts[part] = float_to_bfloat16(word.parts[part]);
  return rounded;
}

/// Copies the row of ids[i] to row i of `out`, and leaves row i as it is where there is none. A row is
/// copied by `lanes` threads side by side, so that what they read of it is one stretch; each thread has
/// a word of several rows under way. Rows of `all` are `Stored` words, as many as a row of `out` has.
template <class Word, class Stored = Word>
struct GatherRows {
  static constexpr int kRowsAtOnce = 4;

  RowsView rows{};
  const int64_t* ids = nullptr;
  int64_t size = 0;
  int64_t words = 0;  ///< of a row
  int lanes = 1;      ///< a power of two, at most a warp's
  Word* out = nullptr;
  uint32_t* first_bad = nullptr;  ///< the least i whose id is none becomes its value; may be null

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    const int64_t place = thread.block() * thread.block_size() + thread.index();
    const int lane = static_cast<int>(place & (lanes - 1));
    const int64_t groups = thread.num_blocks() * thread.block_size() / lanes;
    for (int64_t first = place / lanes; first < size; first += groups * kRowsAtOnce) {
      for (int64_t word = lane; word < words; word += lanes) copy(thread, first, groups, word);
    }
  }

 private:
  template <class Thread>
  GNN_HOST_DEVICE void copy(Thread& thread, int64_t first, int64_t step, int64_t word) const {
    Word values[kRowsAtOnce];
    bool found[kRowsAtOnce];
    for (int row = 0; row < kRowsAtOnce; ++row) {
      const int64_t at = first + row * step;
      found[row] = at < size && read(thread, at, word, values[row]);
    }
    for (int row = 0; row < kRowsAtOnce; ++row) {
      if (found[row]) out[(first + row * step) * words + word] = values[row];
    }
  }
  template <class Thread>
  GNN_HOST_DEVICE bool read(Thread& thread, int64_t at, int64_t word, Word& value) const {
    const int64_t id = ids[at];
    if (id < 0 || id >= rows.num_ids) {
      if (first_bad != nullptr && word == 0)
        thread.atomic_min(first_bad, static_cast<uint32_t>(at));
      return false;
    }
    // reinterpret_cast: rows are copied as words, whatever their type.
    const int64_t place = rows.place_of(id);
    if (place >= 0) {
      value = reinterpret_cast<const Word*>(rows.hot)[place * words + word];
      return true;
    }
    if (!rows.is_in_all(id)) return false;
    value =
        as_gathered(reinterpret_cast<const Stored*>(rows.all)[(id - rows.first) * words + word]);
    return true;
  }
};

/// Copies row i of `rows` to row places[i] of `out`; shared among threads as GatherRows does it.
template <class Word>
struct ScatterRows {
  const Word* rows = nullptr;
  const int64_t* places = nullptr;
  int64_t size = 0;
  int64_t words = 0;  ///< of a row
  int lanes = 1;      ///< a power of two, at most a warp's
  Word* out = nullptr;

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    const int64_t place = thread.block() * thread.block_size() + thread.index();
    const int64_t groups = thread.num_blocks() * thread.block_size() / lanes;
    for (int64_t row = place / lanes; row < size; row += groups) {
      for (int64_t word = place & (lanes - 1); word < words; word += lanes)
        out[places[row] * words + word] = rows[row * words + word];
    }
  }
};

/// The threads that copy a row of so many words.
[[nodiscard]] constexpr int lanes_for(int64_t words) {
  int lanes = 1;
  while (lanes < 32 && lanes < words) lanes *= 2;
  return lanes;
}

/// The bits of places and lengths, of which the widest word divides all.
// reinterpret_cast: their bits alone are of interest.
[[nodiscard]] inline uintptr_t bits_of(const void* place) {
  return reinterpret_cast<uintptr_t>(place);
}

/// Calls with_word(Word{}) with the widest word that divides what these bits are of.
template <class WithWord>
auto with_word_for(uintptr_t bits, const WithWord& with_word) {
  if (bits % 16 == 0) return with_word(Word16{});
  if (bits % 8 == 0) return with_word(uint64_t{});
  if (bits % 4 == 0) return with_word(uint32_t{});
  if (bits % 2 == 0) return with_word(uint16_t{});
  return with_word(uint8_t{});
}

/// The same with the widest word that divides the rows' length and all the places.
template <class WithWord>
auto with_word_of(
    const RowsView& rows, size_t row_bytes, const std::byte* out, const WithWord& with_word
) {
  return with_word_for(bits_of(rows.hot) | bits_of(rows.all) | bits_of(out) | row_bytes, with_word);
}

/// The same with how many bfloat16 of a row, `row_bytes` long, and floats of RowsView::all are one
/// word: calls with_words(Bfloat16s<n>{}, Floats<n>{}).
template <class WithWords>
auto with_rounded_words_of(
    const RowsView& rows, size_t row_bytes, const std::byte* out, const WithWords& with_words
) {
  // A float is twice as wide as a bfloat16: so is what its places must divide by.
  const uintptr_t bits =
      bits_of(rows.hot) | bits_of(out) | row_bytes | static_cast<uintptr_t>(bits_of(rows.all) / 2);
  if (bits % 8 == 0) return with_words(Bfloat16s<4>{}, Floats<4>{});
  if (bits % 4 == 0) return with_words(Bfloat16s<2>{}, Floats<2>{});
  return with_words(Bfloat16s<1>{}, Floats<1>{});
}

}  // namespace gnn::gpu
