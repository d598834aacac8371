#include "worker/nn/cpu/spmm.h"

#include "worker/nn/cpu/simd.h"
#include "worker/nn/sparse/spmm_arguments.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>

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

template <class T, class I>
GNN_INLINE void spmm_rows(const SpmmArguments<T, I>& a, int64_t begin, int64_t end) {
  using Scale = typename ScaleOf<T>::Type;
  alignas(kLine) Scale sums[kTile];
  const int64_t last_entry = a.indptr[end];
  for (int64_t first = 0; first < a.num_columns; first += kTile) {
    const int64_t width = std::min(kTile, a.num_columns - first);
    for (int64_t row = begin; row < end; ++row) {
      std::fill_n(sums, width, Scale{0});
      const int64_t own_column = a.own_columns != nullptr ? a.own_columns[row] : row;
      for (int64_t entry = a.indptr[row]; entry < a.indptr[row + 1]; ++entry) {
        // Entries of later rows follow in memory, so the look-ahead crosses rows.
        if (entry + kAhead < last_entry) {
          prefetch_row(
              a.x + static_cast<int64_t>(a.indices[entry + kAhead]) * a.x_stride + first, width
          );
        }
        const auto column = static_cast<int64_t>(a.indices[entry]);
        if (a.skip_loops && column == own_column) continue;
        const T* x = a.x + column * a.x_stride + first;
        if (a.col_scale != nullptr) {
          const Scale scale = a.col_scale[column];
          for (int64_t k = 0; k < width; ++k) sums[k] += scale * load(x[k]);
        } else {
          for (int64_t k = 0; k < width; ++k) sums[k] += load(x[k]);
        }
      }
      if (a.row_scale != nullptr) {
        const Scale scale = a.row_scale[row];
        for (int64_t k = 0; k < width; ++k) sums[k] *= scale;
      }
      if (a.root != nullptr && row < a.num_roots) {
        const T* root = a.root + row * a.root_stride + first;
        if (a.root_scale != nullptr) {
          const Scale scale = a.root_scale[row];
          for (int64_t k = 0; k < width; ++k) sums[k] += scale * load(root[k]);
        } else {
          for (int64_t k = 0; k < width; ++k) sums[k] += load(root[k]);
        }
      }
      T* out = a.out + row * a.out_stride + first;
      for (int64_t k = 0; k < width; ++k) out[k] = store<T>(sums[k]);
    }
  }
}

template <class T, class I>
void spmm_rows_base(const SpmmArguments<T, I>& a, int64_t begin, int64_t end) {
  spmm_rows(a, begin, end);
}

template <class T, class I>
GNN_AVX2 void spmm_rows_avx2(const SpmmArguments<T, I>& a, int64_t begin, int64_t end) {
  spmm_rows(a, begin, end);
}

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

template <class T, class I>
void run(const SpmmArguments<T, I>& arguments) {
  // Two parts per thread even out costs that the count of entries and rows does not show.
  const int64_t work = arguments.indptr[arguments.num_rows] + arguments.num_rows;
  const int64_t parts = std::clamp<int64_t>(work / 1024, 1, int64_t{2} * at::get_num_threads());
  auto* const rows = has_avx2() ? &spmm_rows_avx2<T, I> : &spmm_rows_base<T, I>;
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

}  // namespace

at::Tensor spmm(const Csr& matrix, const at::Tensor& x, const SpmmOptions& options) {
  at::Tensor out = at::empty({matrix.num_rows, x.size(1)}, x.options());
  with_spmm_arguments(matrix, x, options, out, [](const auto& arguments) { run(arguments); });
  return out;
}

}  // namespace gnn::nn::cpu
