#pragma once

#include "worker/graph/block.h"
#include "worker/nn/sparse/csr.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gnn::nn {

/// The block's matrix: row = destination, column = source. Shares its tensors.
/// Errors: c10::Error naming the tensor whose shape, dtype, device or (on the CPU) value is wrong.
[[nodiscard]] Csr to_csr(const graph::Block& block);

/// The same for a block between two lists of nodes, which may have more destinations than sources.
[[nodiscard]] Csr to_csr_between(const graph::Block& block);

/// Row s has the columns [offsets[s], offsets[s + 1]).
/// Errors: as to_csr.
[[nodiscard]] Csr to_csr_of_segments(const at::Tensor& offsets, int64_t num_cols);

/// The transposed matrix, the entries of each row ascending. The bits do not depend on the number
/// of threads.
[[nodiscard]] Csr transpose(const Csr& matrix);

/// In-edges of each destination that are no self-loops: int64 [num_destinations].
[[nodiscard]] at::Tensor in_degrees_without_loops(const graph::Block& block);

/// Entries of each row that are not in its own column, which `own_columns` (int64 [num_rows])
/// names: int64 [num_rows]. All on the CPU.
[[nodiscard]] at::Tensor in_degrees_without_loops(const Csr& matrix, const at::Tensor& own_columns);

}  // namespace gnn::nn
