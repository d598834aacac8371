#pragma once

#include "worker/graph/block.h"
#include "worker/nn/conv/sage.h"
#include "worker/nn/models/edge_decoder.h"
#include "worker/nn/models/link_model.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

namespace gnn::nn {

/// Two convolutions over the relation item-item, then a Linear: [items, hidden] after each
/// convolution, [seed items, out] at the end.
struct ItemGnnEncoderImpl : public torch::nn::Module {
  ItemGnnEncoderImpl(int64_t item_channels, int64_t hidden_channels, int64_t out_channels);

  SageConv conv1{nullptr};
  SageConv conv2{nullptr};
  torch::nn::Linear lin{nullptr};
};
TORCH_MODULE(ItemGnnEncoder);

struct UserGnnEncoderOptions {
  int64_t user_channels = 0;
  int64_t item_channels = 0;
  int64_t hidden_channels = 0;
  int64_t out_channels = 0;
};

/// conv1 over item-item gives the items of the first layer, conv2 over item-user the users of the
/// first layer, conv3 over item-user what both come to; then a Linear.
struct UserGnnEncoderImpl : public torch::nn::Module {
  explicit UserGnnEncoderImpl(const UserGnnEncoderOptions& options);

  SageConv conv1{nullptr};
  SageConv conv2{nullptr};
  SageConv conv3{nullptr};
  torch::nn::Linear lin{nullptr};
};
TORCH_MODULE(UserGnnEncoder);

/// Node types and edge types are indices of the data set's lists.
struct BipartiteSageOptions {
  int64_t user_type = 0;
  int64_t item_type = 0;
  int64_t item_to_item = 0;   ///< edge type from items to items
  int64_t item_to_user = 0;   ///< edge type from items to users
  int64_t user_channels = 0;  ///< width of the users' rows of x
  int64_t item_channels = 0;
  int64_t hidden_channels = 64;
  int64_t out_channels = 64;
};

/// Scores (user, item) pairs: SAGE encoders of users and items, and a perceptron over their rows.
/// The model for Taobao of PyG's tutorial "Multi-GPU Training in Vanilla PyTorch", with its module
/// names and initial distributions, but without its embeddings: x is given.
///
/// On blocks sampled by the rule NewNodes, forward() gives the pairs what the tutorial's model gives
/// them on the whole sampled subgraph. By the rule AllSeen, conv2 and conv3 of the users read one
/// draw of the users' in-edges, the one of hop 0.
class BipartiteSageImpl : public LinkModel {
 public:
  explicit BipartiteSageImpl(const BipartiteSageOptions& options);

  at::Tensor forward(const TypedInputs& x, const TypedBlocks& blocks, const LinkRows& links)
      override;
  [[nodiscard]] int64_t num_layers() const override { return 2; }
  [[nodiscard]] std::vector<int64_t> reads() const override;
  [[nodiscard]] const BipartiteSageOptions& options() const { return options_; }

 private:
  struct Encoded {
    at::Tensor users;  // [seed users, out]
    at::Tensor items;  // [seed items, out]
  };
  Encoded encode(const TypedInputs& x, const TypedBlocks& blocks);

  BipartiteSageOptions options_;
  ItemGnnEncoder item_encoder_{nullptr};
  UserGnnEncoder user_encoder_{nullptr};
  EdgeDecoder decoder_{nullptr};
};
TORCH_MODULE(BipartiteSage);

}  // namespace gnn::nn
