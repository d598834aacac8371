#pragma once

#include "worker/graph/block.h"
#include "worker/nn/models/link_model.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
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

/// Errors: c10::Error unless `found` is the number of layers.
void check_num_blocks(size_t found, int64_t layers);

/// The block of an edge type.
/// Errors: c10::Error if there is none.
[[nodiscard]] const graph::Block& block_of(
    const TypedBlocks& blocks, size_t layer, int64_t edge_type
);

/// The rows of a node type.
/// Errors: c10::Error if there are none.
[[nodiscard]] const at::Tensor& input_of(const TypedInputs& x, int64_t node_type);

/// The first `count` rows of h.
/// Errors: c10::Error if it has fewer.
[[nodiscard]] at::Tensor first_rows(const at::Tensor& h, int64_t count);

}  // namespace gnn::nn
