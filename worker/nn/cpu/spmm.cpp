#include "worker/nn/cpu/spmm.h"

#include "worker/nn/cpu/simd.h"
#include "worker/nn/sparse/spmm_arguments.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gnn::nn::cpu {
namespace {

// Columns whose sums are on the stack; wider rows are done in pieces.
constexpr int64_t kTile = 512;
// Rows of x prefetched ahead of their use: enough to hide a miss, few enough to stay in the L1
// cache.
constexpr int64_t kAhead = 4;
constexpr int64_t kLine = 64;

template <class T>
GNN_INLINE void prefetch_row(const T* row, int64_t width) {
  const char* bytes = reinterpret_cast<const char*>(row);
  const auto size = static_cast<int64_t>(sizeof(T)) * width;
  for (int64_t at = 0; at < size; at += kLine) __builtin_prefetch(bytes + at);
}

// Entries of a row that are summed at once. A longer row is summed in pieces of as many, on several
// threads, and the pieces' sums are added in their order: the bits are the same for any number of
// threads.
constexpr int64_t kPiece = int64_t{1} << 16;

// Neighbouring entries, and the column that skip_loops leaves out of them.
struct Entries {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t own_column = 0;
};

// Columns [first, first + width).
struct Columns {
  int64_t first = 0;
  int64_t width = 0;
};

template <class T, class I, class R>
GNN_INLINE Entries entries_of(const SpmmArguments<T, I, R>& a, int64_t row) {
  return {
      .begin = a.indptr[row],
      .end = a.indptr[row + 1],
      .own_column = a.own_columns != nullptr ? a.own_columns[row] : row,
  };
}

template <class T, class I, class R>
GNN_INLINE bool is_long(const SpmmArguments<T, I, R>& a, int64_t row) {
  return a.indptr[row + 1] - a.indptr[row] > kPiece;
}

// Adds the entries to `sums`. Rows of x are prefetched up to those of `last_entry`.
template <class T, class I, class R>
GNN_INLINE void add_entries(
    const SpmmArguments<T, I, R>& a,
    const Entries& entries,
    const Columns& columns,
    int64_t last_entry,
    typename ScaleOf<T>::Type* sums
) {
  using Scale = typename ScaleOf<T>::Type;
  for (int64_t entry = entries.begin; entry < entries.end; ++entry) {
    // Entries of later rows follow in memory, so the look-ahead crosses rows.
    if (entry + kAhead < last_entry) {
      prefetch_row(
          a.x + static_cast<int64_t>(a.indices[entry + kAhead]) * a.x_stride + columns.first,
          columns.width
      );
    }
    const auto column = static_cast<int64_t>(a.indices[entry]);
    if (a.skip_loops && column == entries.own_column) continue;
    const T* x = a.x + column * a.x_stride + columns.first;
    if (a.col_scale != nullptr) {
      const Scale scale = a.col_scale[column];
      for (int64_t k = 0; k < columns.width; ++k) sums[k] += scale * load(x[k]);
    } else {
      for (int64_t k = 0; k < columns.width; ++k) sums[k] += load(x[k]);
    }
  }
}

// Scales a row's sums, adds its root and stores them.
template <class T, class I, class R>
GNN_INLINE void finish_row(
    const SpmmArguments<T, I, R>& a,
    int64_t row,
    const Columns& columns,
    typename ScaleOf<T>::Type* sums
) {
  using Scale = typename ScaleOf<T>::Type;
  if (a.row_scale != nullptr) {
    const Scale scale = a.row_scale[row];
    for (int64_t k = 0; k < columns.width; ++k) sums[k] *= scale;
  }
  if (a.root != nullptr && row < a.num_roots) {
    const R* root = a.root + row * a.root_stride + columns.first;
    if (a.root_scale != nullptr) {
      const Scale scale = a.root_scale[row];
      for (int64_t k = 0; k < columns.width; ++k) sums[k] += scale * load(root[k]);
    } else {
      for (int64_t k = 0; k < columns.width; ++k) sums[k] += load(root[k]);
    }
  }
  R* out = a.out + row * a.out_stride + columns.first;
  for (int64_t k = 0; k < columns.width; ++k) out[k] = store<R>(sums[k]);
}

// All rows of [begin, end) but the long ones.
template <class T, class I, class R>
GNN_INLINE void spmm_rows(const SpmmArguments<T, I, R>& a, int64_t begin, int64_t end) {
  using Scale = typename ScaleOf<T>::Type;
  alignas(kLine) Scale sums[kTile];
  const int64_t last_entry = a.indptr[end];
  for (int64_t first = 0; first < a.num_columns; first += kTile) {
    const Columns columns{.first = first, .width = std::min(kTile, a.num_columns - first)};
    for (int64_t row = begin; row < end; ++row) {
      if (is_long(a, row)) continue;
      std::fill_n(sums, columns.width, Scale{0});
      add_entries(a, entries_of(a, row), columns, last_entry, sums);
      finish_row(a, row, columns, sums);
    }
  }
}

// The sums of one piece of a long row, [num_columns].
template <class T, class I, class R>
GNN_INLINE void sum_piece(
    const SpmmArguments<T, I, R>& a, const Entries& piece, typename ScaleOf<T>::Type* sums
) {
  for (int64_t first = 0; first < a.num_columns; first += kTile) {
    const Columns columns{.first = first, .width = std::min(kTile, a.num_columns - first)};
    add_entries(a, piece, columns, piece.end, sums + first);
  }
}

template <class T, class I, class R>
struct Kernels {
  using Scale = typename ScaleOf<T>::Type;
  using Arguments = SpmmArguments<T, I, R>;

  static void rows_base(const Arguments& a, int64_t begin, int64_t end) {
    spmm_rows(a, begin, end);
  }
  GNN_AVX2 static void rows_avx2(const Arguments& a, int64_t begin, int64_t end) {
    spmm_rows(a, begin, end);
  }
  static void piece_base(const Arguments& a, const Entries& piece, Scale* sums) {
    sum_piece(a, piece, sums);
  }
  GNN_AVX2 static void piece_avx2(const Arguments& a, const Entries& piece, Scale* sums) {
    sum_piece(a, piece, sums);
  }
};

// First row of part `part` of `parts`. Parts have about equal numbers of entries plus rows: with
// degrees that follow a power law, equal numbers of rows would be unbalanced.
int64_t part_begin(const int64_t* indptr, int64_t num_rows, int64_t part, int64_t parts) {
  const int64_t work = indptr[num_rows] - indptr[0] + num_rows;
  const int64_t wanted = work / parts * part + work % parts * part / parts;
  int64_t low = 0;
  int64_t high = num_rows;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (indptr[middle] - indptr[0] + middle < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <class T, class I, class R>
void sum_rows(const SpmmArguments<T, I, R>& arguments) {
  // Two parts per thread even out costs that the count of entries and rows does not show.
  const int64_t work = arguments.indptr[arguments.num_rows] + arguments.num_rows;
  const int64_t parts = std::clamp<int64_t>(work / 1024, 1, int64_t{2} * at::get_num_threads());
  auto* const rows = has_avx2() ? &Kernels<T, I, R>::rows_avx2 : &Kernels<T, I, R>::rows_base;
  at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      rows(
          arguments,
          part_begin(arguments.indptr, arguments.num_rows, part, parts),
          part + 1 == parts ? arguments.num_rows
                            : part_begin(arguments.indptr, arguments.num_rows, part + 1, parts)
      );
    }
  });
}

template <class T, class I, class R>
void sum_long_row(const SpmmArguments<T, I, R>& arguments, int64_t row) {
  using Scale = typename ScaleOf<T>::Type;
  const Entries entries = entries_of(arguments, row);
  const int64_t pieces = (entries.end - entries.begin + kPiece - 1) / kPiece;
  const int64_t width = arguments.num_columns;
  std::vector<Scale> sums(static_cast<size_t>(pieces * width));
  auto* const sum = has_avx2() ? &Kernels<T, I, R>::piece_avx2 : &Kernels<T, I, R>::piece_base;
  at::parallel_for(0, pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t number = first; number < last; ++number) {
      Entries piece = entries;
      piece.begin += number * kPiece;
      piece.end = std::min(piece.begin + kPiece, entries.end);
      sum(arguments, piece, sums.data() + number * width);
    }
  });
  for (int64_t piece = 1; piece < pieces; ++piece) {
    const Scale* const more = sums.data() + piece * width;
    for (int64_t k = 0; k < width; ++k) sums[static_cast<size_t>(k)] += more[k];
  }
  finish_row(arguments, row, {.first = 0, .width = width}, sums.data());
}

template <class T, class I, class R>
void run(const SpmmArguments<T, I, R>& arguments) {
  sum_rows(arguments);
  for (int64_t row = 0; row < arguments.num_rows; ++row) {
    if (is_long(arguments, row)) sum_long_row(arguments, row);
  }
}

}  // namespace

at::Tensor spmm(const Csr& matrix, const at::Tensor& x, const SpmmOptions& options) {
  at::Tensor out = at::empty(
      {matrix.num_rows, x.size(1)}, x.options().dtype(options.result.value_or(x.scalar_type()))
  );
  with_spmm_arguments(matrix, x, options, out, [](const auto& arguments) { run(arguments); });
  return out;
}

}  // namespace gnn::nn::cpu
