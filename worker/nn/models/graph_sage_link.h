#pragma once

#include "worker/nn/models/edge_decoder.h"
#include "worker/nn/models/graph_sage.h"
#include "worker/nn/models/link_model.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

namespace gnn::nn {

enum class LinkDecoder {
  Dot,  ///< dot_scores()
  Mlp,  ///< EdgeDecoder
};

struct GraphSageLinkOptions {
  /// out_channels is the width of a node's row that the decoder reads.
  GraphSageOptions encoder;
  LinkDecoder decoder = LinkDecoder::Dot;
  int64_t decoder_hidden_channels = 0;  ///< of LinkDecoder::Mlp
};

/// A GraphSage encoder and a decoder, for a graph of one node type and one edge type.
class GraphSageLinkImpl : public LinkModel {
 public:
  explicit GraphSageLinkImpl(const GraphSageLinkOptions& options);

  at::Tensor forward(const TypedInputs& x, const TypedBlocks& blocks, const LinkRows& links)
      override;
  [[nodiscard]] int64_t num_layers() const override { return encoder_->num_layers(); }
  [[nodiscard]] std::vector<int64_t> reads() const override { return {0}; }

 private:
  GraphSage encoder_{nullptr};
  EdgeDecoder decoder_{nullptr};  // with LinkDecoder::Mlp
};
TORCH_MODULE(GraphSageLink);

}  // namespace gnn::nn
