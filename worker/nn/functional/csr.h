#pragma once

#include "worker/graph/block.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gnn::nn {

/// A sparse 0/1 matrix by rows; a pair may occur more than once and then counts as often.
struct Csr {
  at::Tensor indptr;   ///< int64 [num_rows + 1]
  at::Tensor indices;  ///< int32 or int64 [E]: columns
  int64_t num_rows = 0;
  int64_t num_cols = 0;
};

/// The block's matrix: row = destination, column = source. Shares its tensors.
/// Errors: c10::Error naming the tensor whose shape, dtype, device or (on the CPU) value is wrong.
[[nodiscard]] Csr to_csr(const graph::Block& block);

/// Row s holds the columns offsets[s] .. offsets[s + 1]. Same errors as to_csr.
[[nodiscard]] Csr to_csr_of_segments(const at::Tensor& offsets, int64_t num_cols);

/// The transposed matrix; the entries of a row ascend. Same bits for any number of threads.
[[nodiscard]] Csr transpose(const Csr& matrix);

/// In-edges of each destination that don't start in the destination itself: int64 [num_dst].
[[nodiscard]] at::Tensor in_degrees_without_loops(const graph::Block& block);

}  // namespace gnn::nn
