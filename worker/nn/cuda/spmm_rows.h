#pragma once

#include "worker/gpu/kernels/host_device.h"
#include "worker/gpu/kernels/launch_shape.h"
#include "worker/nn/sparse/spmm_arguments.h"

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace gnn::nn::cuda {

/// Rows with more entries are summed by a block each, the others by a warp.
inline constexpr int64_t kLongRow = 512;

/// Entries of one row, and the column that skip_loops leaves out of them.
struct RowEntries {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t own_column = 0;
};

/// Sums one column of x over the entries, in their order. Multiplications are fused with the sums by
/// name, so that a compiler's choice does not change the bits.
template <class T, class I, class R>
GNN_HOST_DEVICE typename ScaleOf<T>::Type sum_entries(
    const SpmmArguments<T, I, R>& a, const RowEntries& entries, int64_t column
) {
  using Scale = typename ScaleOf<T>::Type;
  constexpr int kAtOnce = 4;  // loads under way
  Scale sum = 0;
  for (int64_t first = entries.begin; first < entries.end; first += kAtOnce) {
    int64_t sources[kAtOnce];
    Scale values[kAtOnce];
    for (int i = 0; i < kAtOnce; ++i)
      sources[i] = first + i < entries.end ? static_cast<int64_t>(a.indices[first + i]) : -1;
    for (int i = 0; i < kAtOnce; ++i) {
      if (a.skip_loops && sources[i] == entries.own_column) sources[i] = -1;
      if (sources[i] >= 0) values[i] = static_cast<Scale>(a.x[sources[i] * a.x_stride + column]);
    }
    for (int i = 0; i < kAtOnce; ++i) {
      if (sources[i] < 0) continue;
      sum = a.col_scale != nullptr ? std::fma(a.col_scale[sources[i]], values[i], sum)
                                   : sum + values[i];
    }
  }
  return sum;
}

/// Scales a row's sum, adds its root and stores it.
template <class T, class I, class R>
GNN_HOST_DEVICE void finish_sum(
    const SpmmArguments<T, I, R>& a, int64_t row, int64_t column, typename ScaleOf<T>::Type sum
) {
  using Scale = typename ScaleOf<T>::Type;
  if (a.row_scale != nullptr) sum *= a.row_scale[row];
  if (a.root != nullptr && row < a.num_roots) {
    const auto root = static_cast<Scale>(a.root[row * a.root_stride + column]);
    sum = a.root_scale != nullptr ? std::fma(a.root_scale[row], root, sum) : sum + root;
  }
  a.out[row * a.out_stride + column] = static_cast<R>(sum);
}

template <class T, class I, class R>
GNN_HOST_DEVICE RowEntries entries_of(const SpmmArguments<T, I, R>& a, int64_t row) {
  return {
      .begin = a.indptr[row],
      .end = a.indptr[row + 1],
      .own_column = a.own_columns != nullptr ? a.own_columns[row] : row
  };
}

/// The rows that are not long. A warp takes a row, its lanes neighbouring columns, so that reads of x
/// coalesce; each element is summed by one thread.
template <class T, class I, class R>
struct SpmmRows {
  SpmmArguments<T, I, R> arguments{};

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    const int warps = thread.block_size() / gpu::kWarpThreads;
    const int lane = thread.index() % gpu::kWarpThreads;
    for (int64_t row = thread.block() * warps + thread.index() / gpu::kWarpThreads;
         row < arguments.num_rows;
         row += thread.num_blocks() * warps) {
      const RowEntries entries = entries_of(arguments, row);
      if (entries.end - entries.begin > kLongRow) continue;
      for (int64_t column = lane; column < arguments.num_columns; column += gpu::kWarpThreads)
        finish_sum(arguments, row, column, sum_entries(arguments, entries, column));
    }
  }
};

/// The shared memory that SpmmLongRows takes: a sum for each thread, and a mark.
template <class T>
[[nodiscard]] size_t long_rows_bytes(int threads) {
  return static_cast<size_t>(threads) * (sizeof(typename ScaleOf<T>::Type) + 1);
}

/// The long rows. Each warp of a block sums a stretch of the row, and the stretches' sums are added in
/// their order: no atomics, and the same bits at every launch.
template <class T, class I, class R>
struct SpmmLongRows {
  using Scale = typename ScaleOf<T>::Type;
  SpmmArguments<T, I, R> arguments{};

  template <class Thread>
  GNN_HOST_DEVICE void operator()(Thread& thread) const {
    // As many rows as there are threads are looked at together.
    for (int64_t first = thread.block() * thread.block_size(); first < arguments.num_rows;
         first += thread.num_blocks() * thread.block_size()) {
      auto* const marks =
          static_cast<uint8_t*>(thread.shared()) + thread.block_size() * sizeof(Scale);
      const int64_t own = first + thread.index();
      thread.sync();
      marks[thread.index()] = own < arguments.num_rows && is_long(own) ? 1 : 0;
      thread.sync();
      for (int i = 0; i < thread.block_size(); ++i) {
        if (marks[i] != 0) sum_row(thread, first + i);
      }
    }
  }

 private:
  GNN_HOST_DEVICE bool is_long(int64_t row) const {
    return arguments.indptr[row + 1] - arguments.indptr[row] > kLongRow;
  }

  template <class Thread>
  GNN_HOST_DEVICE void sum_row(Thread& thread, int64_t row) const {
    const int warps = thread.block_size() / gpu::kWarpThreads;
    const int warp = thread.index() / gpu::kWarpThreads;
    const int lane = thread.index() % gpu::kWarpThreads;
    const RowEntries all = entries_of(arguments, row);
    const int64_t stretch = (all.end - all.begin + warps - 1) / warps;
    RowEntries own = all;
    own.begin = all.begin + warp * stretch < all.end ? all.begin + warp * stretch : all.end;
    own.end = own.begin + stretch < all.end ? own.begin + stretch : all.end;
    auto* const sums = static_cast<Scale*>(thread.shared());
    for (int64_t first = 0; first < arguments.num_columns; first += gpu::kWarpThreads) {
      const int64_t column = first + lane;
      const bool inside = column < arguments.num_columns;
      thread.sync();
      if (inside) sums[thread.index()] = sum_entries(arguments, own, column);
      thread.sync();
      if (warp != 0 || !inside) continue;
      Scale sum = 0;
      for (int each = 0; each < warps; ++each) sum += sums[each * gpu::kWarpThreads + lane];
      finish_sum(arguments, row, column, sum);
    }
  }
};

}  // namespace gnn::nn::cuda
