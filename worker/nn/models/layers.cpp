#include "worker/nn/models/layers.h"

#include <c10/util/Exception.h>

namespace gnn::nn {

std::vector<LayerWidth> layer_widths(const StackShape& shape) {
  TORCH_CHECK(
      shape.layers > 0 && shape.in > 0 && shape.out > 0 && (shape.layers == 1 || shape.hidden > 0),
      "model: expected positive widths and layers, found in ",
      shape.in,
      ", hidden ",
      shape.hidden,
      ", out ",
      shape.out,
      ", layers ",
      shape.layers
  );
  std::vector<LayerWidth> widths;
  widths.reserve(static_cast<size_t>(shape.layers));
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    widths.push_back(LayerWidth{
        .in = layer == 0 ? shape.in : shape.hidden,
        .out = layer + 1 == shape.layers ? shape.out : shape.hidden,
    });
  }
  return widths;
}

void check_blocks(const at::Tensor& x, const std::vector<graph::Block>& blocks, int64_t layers) {
  check_num_blocks(blocks.size(), layers);
  int64_t rows = x.size(0);
  for (size_t layer = 0; layer < blocks.size(); ++layer) {
    TORCH_CHECK(
        blocks[layer].num_sources <= rows,
        "model: blocks[",
        layer,
        "]: expected at most ",
        rows,
        " sources, as many as its input has rows, found ",
        blocks[layer].num_sources
    );
    rows = blocks[layer].num_destinations;
  }
}

void check_num_blocks(size_t found, int64_t layers) {
  TORCH_CHECK(
      static_cast<int64_t>(found) == layers,
      "model: expected one block a layer (",
      layers,
      "), found ",
      found
  );
}

const graph::Block& block_of(const TypedBlocks& blocks, size_t layer, int64_t edge_type) {
  TORCH_CHECK(
      edge_type >= 0 && edge_type < static_cast<int64_t>(blocks.at(layer).size()),
      "model: blocks[",
      layer,
      "]: expected one of edge type ",
      edge_type,
      ", found ",
      blocks[layer].size(),
      " edge types"
  );
  return blocks[layer][static_cast<size_t>(edge_type)];
}

const at::Tensor& input_of(const TypedInputs& x, int64_t node_type) {
  TORCH_CHECK(
      node_type >= 0 && node_type < static_cast<int64_t>(x.size()) &&
          x[static_cast<size_t>(node_type)].defined(),
      "model: x: expected rows of node type ",
      node_type,
      ", found none"
  );
  return x[static_cast<size_t>(node_type)];
}

at::Tensor first_rows(const at::Tensor& h, int64_t count) {
  TORCH_CHECK(
      count <= h.size(0),
      "model: expected at most ",
      h.size(0),
      " sources, as many as the layer's input has rows, found ",
      count
  );
  // A slice of all rows would cost a copy in backward.
  return count == h.size(0) ? h : h.narrow(0, 0, count);
}

}  // namespace gnn::nn
