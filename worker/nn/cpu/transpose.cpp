#include "worker/nn/cpu/transpose.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace gnn::nn::cpu {
namespace {

template <class I>
void run(
    const int64_t* indptr,
    const I* indices,
    int64_t num_rows,
    int64_t num_cols,
    int64_t* t_indptr,
    I* t_indices
) {
  // Counting sort. Each part owns a range of columns and scans all entries, so that no two parts
  // write to one place and each row's entries are in the order of the scan.
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
void run(const Csr& matrix, const Csr& result) {
  run(matrix.indptr.const_data_ptr<int64_t>(),
      matrix.indices.const_data_ptr<I>(),
      matrix.num_rows,
      matrix.num_cols,
      result.indptr.mutable_data_ptr<int64_t>(),
      result.indices.mutable_data_ptr<I>());
}

}  // namespace

Csr transpose(const Csr& matrix) {
  Csr result{
      .indptr = at::empty({matrix.num_cols + 1}, matrix.indptr.options()),
      .indices = at::empty({matrix.indices.numel()}, matrix.indices.options()),
      .num_rows = matrix.num_cols,
      .num_cols = matrix.num_rows,
  };
  if (matrix.indices.scalar_type() == at::kInt) {
    run<int32_t>(matrix, result);
  } else {
    run<int64_t>(matrix, result);
  }
  return result;
}

}  // namespace gnn::nn::cpu
