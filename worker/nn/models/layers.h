#pragma once

#include "worker/graph/block.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace gnn::nn {

struct LayerWidth {
  int64_t in = 0;
  int64_t out = 0;
};

struct StackShape {
  int64_t in = 0;
  int64_t hidden = 0;
  int64_t out = 0;
  int64_t layers = 0;
};

/// in -> hidden -> ... -> hidden -> out.
/// Errors: c10::Error if a number is not positive.
[[nodiscard]] std::vector<LayerWidth> layer_widths(const StackShape& shape);

/// Errors: c10::Error unless there is one block per layer and each has at most as many sources as
/// the block before it has destinations (the first: as x has rows).
void check_blocks(const at::Tensor& x, const std::vector<graph::Block>& blocks, int64_t layers);

}  // namespace gnn::nn
