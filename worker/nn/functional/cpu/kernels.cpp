#include "worker/nn/functional/cpu/kernels.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

namespace gnn::nn::cpu {
namespace {

// Compiled twice where the machine may know AVX2, picked once at run time. Contraction to fused
// multiply-add is off (CMakeLists.txt), so both give the same bits.
#if defined(__x86_64__)
#define GNN_AVX2 __attribute__((target("avx2")))
#else
#define GNN_AVX2
#endif
#define GNN_INLINE [[gnu::always_inline]] inline

bool has_avx2() {
#if defined(__x86_64__)
  static const bool kHas = __builtin_cpu_supports("avx2");
  return kHas;
#else
  return false;
#endif
}

template <class T>
GNN_INLINE typename ScaleOf<T>::Type load(T value) {
  return value;
}
template <>
GNN_INLINE float load(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

template <class T>
GNN_INLINE T store(typename ScaleOf<T>::Type value) {
  return value;
}
template <>
GNN_INLINE BFloat16 store(float value) {
  // Round to nearest, ties to even; NaN stays a NaN.
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return BFloat16{static_cast<uint16_t>(is_nan ? 0x7fc0U : rounded)};
}

// Columns whose sums are kept on the stack; wider rows are done in pieces.
constexpr int64_t kTile = 512;
// Rows of x asked for ahead of their use: enough to hide a miss, few enough to stay in the
// first-level cache.
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
      for (int64_t entry = a.indptr[row]; entry < a.indptr[row + 1]; ++entry) {
        // Entries of later rows follow in memory, so the look-ahead crosses rows.
        if (entry + kAhead < last_entry) {
          prefetch_row(
              a.x + static_cast<int64_t>(a.indices[entry + kAhead]) * a.x_stride + first, width
          );
        }
        const auto column = static_cast<int64_t>(a.indices[entry]);
        if (a.skip_loops && column == row) continue;
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

// First row of part `part` of `parts`, each with about as many entries and rows: degrees follow a
// power law, so equal numbers of rows would not do.
int64_t part_begin(const int64_t* indptr, int64_t num_rows, int64_t part, int64_t parts) {
  const int64_t work = indptr[num_rows] - indptr[0] + num_rows;
  const int64_t target = work / parts * part + work % parts * part / parts;
  int64_t low = 0;
  int64_t high = num_rows;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (indptr[middle] - indptr[0] + middle < target) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// splitmix64's finaliser over a Weyl sequence: the two words that seed a chunk's draws.
uint64_t chunk_key(uint64_t key, int64_t chunk) {
  uint64_t z = key + (static_cast<uint64_t>(chunk) + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// 32-bit mixing alone inside a chunk, so that the draws vectorise. Constants: Wellons, "lowbias32"
// (2018).
GNN_INLINE uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x21f0aaadU;
  x ^= x >> 15;
  x *= 0xd35a2d97U;
  x ^= x >> 15;
  return x;
}

constexpr int64_t kChunk = 4096;

template <class T>
GNN_INLINE void relu_dropout_chunk(
    T* y, int64_t size, uint64_t key, uint32_t threshold, typename ScaleOf<T>::Type scale
) {
  using Scale = typename ScaleOf<T>::Type;
  const auto low = static_cast<uint32_t>(key);
  const auto high = static_cast<uint32_t>(key >> 32);
  for (int64_t i = 0; i < size; ++i) {
    const uint32_t random = mix(static_cast<uint32_t>(i) * 0x9e3779b9U + low) ^ high;
    const Scale value = load(y[i]);
    const Scale scaled = value * scale;
    // Not short-circuited and one select: a branch here is taken at random. A NaN that is not
    // dropped is kept, as at::relu does.
    const bool zero = static_cast<bool>(
        static_cast<unsigned>(random < threshold) | static_cast<unsigned>(value < Scale{0})
    );
    y[i] = store<T>(zero ? Scale{0} : scaled);
  }
}

template <class T>
void relu_dropout_chunk_base(
    T* y, int64_t size, uint64_t key, uint32_t threshold, typename ScaleOf<T>::Type scale
) {
  relu_dropout_chunk(y, size, key, threshold, scale);
}

template <class T>
GNN_AVX2 void relu_dropout_chunk_avx2(
    T* y, int64_t size, uint64_t key, uint32_t threshold, typename ScaleOf<T>::Type scale
) {
  relu_dropout_chunk(y, size, key, threshold, scale);
}

}  // namespace

template <class T, class I>
void spmm(const SpmmArguments<T, I>& arguments) {
  // Two parts a thread even out what the count of entries and rows does not say about their cost.
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

template <class I>
void transpose(
    const int64_t* indptr,
    const I* indices,
    int64_t num_rows,
    int64_t num_cols,
    int64_t* t_indptr,
    I* t_indices
) {
  // Counting sort. Each part owns a range of columns and scans all entries, so that no two write
  // one place and the order of a row's entries is that of the scan.
  const int64_t num_entries = indptr[num_rows];
  const int64_t parts =
      std::clamp<int64_t>(num_entries / 32768, 1, std::min<int64_t>(4, at::get_num_threads()));
  std::vector<int64_t> next(static_cast<size_t>(num_cols) + 1, 0);
  at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    const int64_t begin = num_cols * first / parts;
    const int64_t end = num_cols * last / parts;
    for (int64_t entry = 0; entry < num_entries; ++entry) {
      const auto column = static_cast<int64_t>(indices[entry]);
      if (column >= begin && column < end) ++next[static_cast<size_t>(column)];
    }
  });
  int64_t sum = 0;
  for (int64_t column = 0; column < num_cols; ++column) {
    t_indptr[column] = sum;
    sum += std::exchange(next[static_cast<size_t>(column)], sum);
  }
  t_indptr[num_cols] = sum;
  at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    const int64_t begin = num_cols * first / parts;
    const int64_t end = num_cols * last / parts;
    for (int64_t row = 0; row < num_rows; ++row) {
      for (int64_t entry = indptr[row]; entry < indptr[row + 1]; ++entry) {
        const auto column = static_cast<int64_t>(indices[entry]);
        if (column >= begin && column < end) {
          t_indices[next[static_cast<size_t>(column)]++] = static_cast<I>(row);
        }
      }
    }
  });
}

template <class I>
int64_t first_outside(const I* indices, int64_t num_entries, int64_t num_cols) {
  // One unsigned comparison finds negatives too; the loop has no exit, so that it vectorises.
  bool any = false;
  for (int64_t entry = 0; entry < num_entries; ++entry) {
    any |= static_cast<uint64_t>(static_cast<int64_t>(indices[entry])) >=
           static_cast<uint64_t>(num_cols);
  }
  if (!any) return -1;
  for (int64_t entry = 0; entry < num_entries; ++entry) {
    if (indices[entry] < 0 || static_cast<int64_t>(indices[entry]) >= num_cols) return entry;
  }
  return -1;
}

int64_t first_falling(const int64_t* values, int64_t size) {
  for (int64_t i = 1; i < size; ++i) {
    if (values[i] < values[i - 1]) return i;
  }
  return -1;
}

template <class T>
void relu_dropout(T* y, int64_t size, double p, uint64_t key) {
  const auto threshold = static_cast<uint32_t>(std::min(std::llround(p * 0x1p32), (1LL << 32) - 1));
  const auto scale = static_cast<typename ScaleOf<T>::Type>(1 / (1 - p));
  auto* const chunk = has_avx2() ? &relu_dropout_chunk_avx2<T> : &relu_dropout_chunk_base<T>;
  at::parallel_for(0, (size + kChunk - 1) / kChunk, 8, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = i * kChunk;
      chunk(y + begin, std::min(kChunk, size - begin), chunk_key(key, i), threshold, scale);
    }
  });
}

template <class T>
void relu_dropout_backward(
    const T* output, const T* grad_output, T* grad, int64_t size, double scale
) {
  using Scale = typename ScaleOf<T>::Type;
  const auto factor = static_cast<Scale>(scale);
  at::parallel_for(0, size, 8 * kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Scale value = load(grad_output[i]) * factor;
      grad[i] = store<T>(load(output[i]) > Scale{0} ? value : Scale{0});
    }
  });
}

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are types
#define GNN_INSTANTIATE_FOR(T)                                      \
  template void spmm<T, int32_t>(const SpmmArguments<T, int32_t>&); \
  template void spmm<T, int64_t>(const SpmmArguments<T, int64_t>&); \
  template void relu_dropout<T>(T*, int64_t, double, uint64_t);     \
  template void relu_dropout_backward<T>(const T*, const T*, T*, int64_t, double);
GNN_INSTANTIATE_FOR(float)
GNN_INSTANTIATE_FOR(double)
GNN_INSTANTIATE_FOR(BFloat16)
#define GNN_INSTANTIATE_INDEX(I)                                                        \
  template void transpose<I>(const int64_t*, const I*, int64_t, int64_t, int64_t*, I*); \
  template int64_t first_outside<I>(const I*, int64_t, int64_t);
GNN_INSTANTIATE_INDEX(int32_t)
GNN_INSTANTIATE_INDEX(int64_t)
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace gnn::nn::cpu
