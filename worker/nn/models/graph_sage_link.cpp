#include "worker/nn/models/graph_sage_link.h"

#include "worker/nn/functional/select_rows.h"
#include "worker/nn/models/layers.h"

#include <c10/util/Exception.h>

namespace gnn::nn {

GraphSageLinkImpl::GraphSageLinkImpl(const GraphSageLinkOptions& options) {
  encoder_ = register_module("encoder", GraphSage(options.encoder));
  if (options.decoder == LinkDecoder::Dot) return;
  decoder_ = register_module(
      "decoder", EdgeDecoder(options.encoder.out_channels, options.decoder_hidden_channels)
  );
}

at::Tensor GraphSageLinkImpl::forward(
    const TypedInputs& x, const TypedBlocks& blocks, const LinkRows& links
) {
  TORCH_CHECK(
      links.source_type == 0 && links.destination_type == 0,
      "GraphSageLink: expected pairs of the one node type, found ",
      links.source_type,
      " to ",
      links.destination_type
  );
  std::vector<graph::Block> of_relation;
  of_relation.reserve(blocks.size());
  for (size_t layer = 0; layer < blocks.size(); ++layer)
    of_relation.push_back(block_of(blocks, layer, 0));
  const at::Tensor& inputs = input_of(x, 0);
  const at::Tensor rows = encoder_->forward(inputs, of_relation);
  const at::Tensor sources = select_rows(rows, links.source_rows);
  const at::Tensor destinations = select_rows(rows, links.destination_rows);
  if (!decoder_) return dot_scores(sources, destinations);
  return decoder_->forward(sources, destinations, inputs.scalar_type());
}

}  // namespace gnn::nn
