#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gnn::embedding {

/// Draws from N(0, 1), as torch.nn.Embedding starts from. Element (row, column) is a function of
/// (key, row, column) and the width alone, with the same bits on every machine: numbers 2 i and
/// 2 i + 1 of the SplitMix64 generator that starts from `key` become two draws by the Box-Muller
/// transform, i counting pairs of columns row by row. Parallel over rows.
/// Shapes: values [rows, width] on the CPU, float32 or float64, columns contiguous.
void fill_with_normal(const at::Tensor& values, uint64_t key);

}  // namespace gnn::embedding
