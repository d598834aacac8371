#include "worker/nn/models/bipartite_sage.h"

#include "worker/nn/functional/matmul.h"
#include "worker/nn/functional/select_rows.h"
#include "worker/nn/models/layers.h"

#include <ATen/ops/relu.h>
#include <c10/util/Exception.h>

#include <algorithm>

namespace gnn::nn {
namespace {

SageConv sage_of_pyg(int64_t in_channels, int64_t destination_channels, int64_t out_channels) {
  return SageConv(SageConvOptions{
      .in_channels = in_channels,
      .out_channels = out_channels,
      .destination_channels = destination_channels,
      .parameters = SageParameters::Pyg,
  });
}

at::Tensor apply_linear(const torch::nn::Linear& linear, const at::Tensor& x) {
  return linear_rows(x, linear->weight, linear->bias, score_type(x.scalar_type()));
}

}  // namespace

ItemGnnEncoderImpl::ItemGnnEncoderImpl(
    int64_t item_channels, int64_t hidden_channels, int64_t out_channels
) {
  conv1 = register_module("conv1", sage_of_pyg(item_channels, item_channels, hidden_channels));
  conv2 = register_module("conv2", sage_of_pyg(hidden_channels, hidden_channels, hidden_channels));
  lin = register_module("lin", torch::nn::Linear(hidden_channels, out_channels));
}

UserGnnEncoderImpl::UserGnnEncoderImpl(const UserGnnEncoderOptions& options) {
  const int64_t hidden = options.hidden_channels;
  conv1 =
      register_module("conv1", sage_of_pyg(options.item_channels, options.item_channels, hidden));
  conv2 =
      register_module("conv2", sage_of_pyg(options.item_channels, options.user_channels, hidden));
  conv3 = register_module("conv3", sage_of_pyg(hidden, hidden, hidden));
  lin = register_module("lin", torch::nn::Linear(hidden, options.out_channels));
}

BipartiteSageImpl::BipartiteSageImpl(const BipartiteSageOptions& options) : options_(options) {
  TORCH_CHECK(
      options.user_type != options.item_type && options.item_to_item != options.item_to_user,
      "BipartiteSage: expected two node types and two edge types"
  );
  TORCH_CHECK(options.out_channels > 0, "BipartiteSage: expected positive out_channels");
  item_encoder_ = register_module(
      "item_encoder",
      ItemGnnEncoder(options.item_channels, options.hidden_channels, options.out_channels)
  );
  user_encoder_ = register_module(
      "user_encoder",
      UserGnnEncoder(UserGnnEncoderOptions{
          .user_channels = options.user_channels,
          .item_channels = options.item_channels,
          .hidden_channels = options.hidden_channels,
          .out_channels = options.out_channels,
      })
  );
  decoder_ = register_module("decoder", EdgeDecoder(options.out_channels, options.out_channels));
}

std::vector<int64_t> BipartiteSageImpl::reads() const {
  return {
      std::min(options_.item_to_item, options_.item_to_user),
      std::max(options_.item_to_item, options_.item_to_user),
  };
}

BipartiteSageImpl::Encoded BipartiteSageImpl::encode(
    const TypedInputs& x, const TypedBlocks& blocks
) {
  const graph::Block& outer = block_of(blocks, 0, options_.item_to_item);
  const graph::Block& inner = block_of(blocks, 1, options_.item_to_item);
  const graph::Block& to_users = block_of(blocks, 1, options_.item_to_user);
  const at::Tensor& item_x = input_of(x, options_.item_type);
  const at::Tensor& user_x = input_of(x, options_.user_type);

  // Both encoders start with a convolution of the same items over the same edges, the most there
  // are.
  auto [items, items_for_users] = forward_together(
      *item_encoder_->conv1, *user_encoder_->conv1, first_rows(item_x, outer.num_sources), outer
  );
  items = at::relu(items);
  items = item_encoder_->conv2->forward(first_rows(items, inner.num_sources), inner).relu_();

  const int64_t num_users = to_users.num_destinations;
  at::Tensor users =
      user_encoder_->conv2
          ->forward(
              first_rows(item_x, to_users.num_sources), first_rows(user_x, num_users), to_users
          )
          .relu_();
  items_for_users = at::relu(first_rows(items_for_users, to_users.num_sources));
  users = user_encoder_->conv3->forward(items_for_users, users, to_users).relu_();
  return {
      .users = apply_linear(user_encoder_->lin, users),
      .items = apply_linear(item_encoder_->lin, items),
  };
}

at::Tensor BipartiteSageImpl::forward(
    const TypedInputs& x, const TypedBlocks& blocks, const LinkRows& links
) {
  TORCH_CHECK(
      links.source_type == options_.user_type && links.destination_type == options_.item_type,
      "BipartiteSage: expected pairs from node type ",
      options_.user_type,
      " to ",
      options_.item_type,
      ", found ",
      links.source_type,
      " to ",
      links.destination_type
  );
  check_num_blocks(blocks.size(), num_layers());
  const Encoded rows = encode(x, blocks);
  return decoder_->forward(
      select_rows(rows.users, links.source_rows),
      select_rows(rows.items, links.destination_rows),
      input_of(x, options_.item_type).scalar_type()
  );
}

}  // namespace gnn::nn
