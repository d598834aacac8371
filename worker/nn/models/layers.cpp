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
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    widths.push_back(LayerWidth{
        .in = layer == 0 ? shape.in : shape.hidden,
        .out = layer + 1 == shape.layers ? shape.out : shape.hidden,
    });
  }
  return widths;
}

void check_blocks(const at::Tensor& x, const std::vector<graph::Block>& blocks, int64_t layers) {
  TORCH_CHECK(
      static_cast<int64_t>(blocks.size()) == layers,
      "model: expected one block a layer (",
      layers,
      "), found ",
      blocks.size()
  );
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

}  // namespace gnn::nn
