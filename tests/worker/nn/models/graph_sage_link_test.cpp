#include "worker/nn/models/graph_sage_link.h"

#include "tests/support/blocks.h"
#include "worker/nn/models/gradient_check.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/optim/adam.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>
#include <vector>

namespace gnn::nn {
namespace {

GraphSageLinkOptions link_options(LinkDecoder decoder) {
  return {
      .encoder =
          {.in_channels = 5, .hidden_channels = 6, .out_channels = 4, .layers = 2, .dropout = 0},
      .decoder = decoder,
      .decoder_hidden_channels = 3,
  };
}

// Five seeds; layer by layer fewer destinations.
TypedBlocks chain() {
  return {
      {testing::random_block(9, 14, 4, 5, at::kInt)}, {testing::random_block(5, 9, 4, 6, at::kInt)}
  };
}

LinkRows links_of_seeds() {
  return {
      .source_rows = torch::tensor({0, 1, 4, 4}, torch::kInt64),
      .destination_rows = torch::tensor({2, 2, 0, 4}, torch::kInt64),
  };
}

TEST(GraphSageLink, ScoresPairsByTheRowsOfItsEncoder) {
  for (const LinkDecoder decoder : {LinkDecoder::Dot, LinkDecoder::Mlp}) {
    torch::manual_seed(1);
    GraphSageLink model(link_options(decoder));
    model->to(torch::kFloat64);
    torch::manual_seed(1);
    GraphSage encoder(link_options(decoder).encoder);  // draws the same parameters
    encoder->to(torch::kFloat64);
    const at::Tensor x = torch::randn({14, 5}, torch::kFloat64);
    const TypedBlocks blocks = chain();
    const LinkRows links = links_of_seeds();
    const at::Tensor rows = encoder->forward(x, {blocks[0][0], blocks[1][0]});
    const at::Tensor sources = rows.index_select(0, links.source_rows);
    const at::Tensor destinations = rows.index_select(0, links.destination_rows);
    at::Tensor expected = (sources * destinations).sum(1);
    if (decoder == LinkDecoder::Mlp) {
      const auto parameters = model->named_parameters();
      const auto linear = [&](const std::string& name, const at::Tensor& h) {
        return torch::linear(h, parameters[name + ".weight"], parameters[name + ".bias"]);
      };
      const at::Tensor hidden = linear("decoder.lin1", torch::cat({sources, destinations}, 1));
      expected = linear("decoder.lin2", hidden.relu()).squeeze(1);
    }
    const at::Tensor logits = model->forward({x}, blocks, links);
    EXPECT_TRUE(torch::allclose(logits, expected, 1e-12, 1e-12));
    EXPECT_TRUE(check_gradients(*model, logits.sum()));
  }
}

TEST(GraphSageLink, HasTheParametersOfItsEncoderAndOfADecoderThatLearns) {
  GraphSageLink dot(link_options(LinkDecoder::Dot));
  for (const std::string& name : dot->named_parameters().keys())
    EXPECT_EQ(name.rfind("encoder.", 0), 0U) << name;
  GraphSageLink mlp(link_options(LinkDecoder::Mlp));
  EXPECT_EQ(
      mlp->named_parameters()["decoder.lin1.weight"].sizes(), (std::vector<int64_t>{3, 2 * 4})
  );
  EXPECT_EQ(mlp->parameters().size(), dot->parameters().size() + 4);
  EXPECT_EQ(mlp->num_layers(), 2);
  EXPECT_EQ(mlp->reads(), std::vector<int64_t>{0});
}

TEST(GraphSageLink, RefusesWhatDoesNotFit) {
  GraphSageLink model(link_options(LinkDecoder::Dot));
  const at::Tensor x = torch::randn({14, 5});
  LinkRows links = links_of_seeds();
  EXPECT_NO_THROW(model->forward({x}, chain(), links));
  EXPECT_THROW(model->forward({x}, {chain()[0]}, links), c10::Error);
  EXPECT_THROW(model->forward({}, chain(), links), c10::Error);
  EXPECT_THROW(model->forward({x}, {{}, {}}, links), c10::Error);
  links.source_rows = torch::full({4}, 5, torch::kInt64);
  EXPECT_THROW(model->forward({x}, chain(), links), c10::Error);
  GraphSageLinkOptions options = link_options(LinkDecoder::Mlp);
  options.decoder_hidden_channels = 0;
  EXPECT_THROW(GraphSageLink{options}, c10::Error);
}

// Two circles of nodes: an edge joins nodes of one circle.
TEST(GraphSageLink, LearnsWhichNodesAreOfOneKind) {
  torch::manual_seed(2);
  constexpr int64_t kNodes = 40;
  std::vector<std::vector<int64_t>> lists;
  for (int64_t node = 0; node < kNodes; ++node)
    lists.push_back({(node + 2) % kNodes, (node + kNodes - 2) % kNodes});
  const graph::Block whole = testing::make_block(lists, kNodes, at::kInt);
  const at::Tensor kinds = torch::arange(kNodes, torch::kInt64).remainder(2);
  const at::Tensor x = torch::randn({kNodes, 5}) + kinds.unsqueeze(1);
  LinkRows links;
  links.source_rows = torch::randint(0, kNodes, {400}, torch::kInt64);
  links.destination_rows = torch::randint(0, kNodes, {400}, torch::kInt64);
  const at::Tensor labels = kinds.index_select(0, links.source_rows)
                                .eq(kinds.index_select(0, links.destination_rows))
                                .to(torch::kFloat32);
  for (const LinkDecoder decoder : {LinkDecoder::Dot, LinkDecoder::Mlp}) {
    GraphSageLinkOptions options = link_options(decoder);
    options.decoder_hidden_channels = 8;
    GraphSageLink model(options);
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.02));
    const auto logits = [&] { return model->forward({x}, {{whole}, {whole}}, links); };
    for (int step = 0; step < 100; ++step) {
      optimizer.zero_grad();
      torch::nn::functional::binary_cross_entropy_with_logits(logits(), labels).backward();
      optimizer.step();
    }
    const at::Tensor right = logits().gt(0).to(torch::kFloat32).eq(labels);
    EXPECT_GT(right.to(torch::kFloat64).mean().item<double>(), 0.9);
  }
}

}  // namespace
}  // namespace gnn::nn
