#include "tests/support/blocks.h"
#include "worker/nn/functional/aggregate.h"
#include "worker/nn/functional/csr.h"
#include "worker/nn/models/gcn.h"
#include "worker/nn/models/gin.h"
#include "worker/nn/models/graph_sage.h"
#include "worker/nn/models/graph_sage_link.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/optim/adam.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gnn::nn {
namespace {

using testing::make_block;
using testing::random_block;

int64_t count_parameters(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const at::Tensor& parameter : module.parameters()) count += parameter.numel();
  return count;
}

// Seeds 0-1, hop 1 adds 2-4, hop 2 adds 5-8.
const std::vector<std::vector<int64_t>> kLists = {{2, 3}, {1, 4, 4, 0}, {5, 0}, {}, {6, 7, 8, 1}};
graph::Block outer() {
  return make_block(kLists, 9, at::kInt);
}
graph::Block inner() {
  return make_block({kLists[0], kLists[1]}, 5, at::kInt);
}
graph::Block square() {
  auto lists = kLists;
  lists.resize(9);
  return make_block(lists, 9, at::kInt);
}

TEST(Models, HaveAsManyParametersAsInTheTutorials) {
  EXPECT_EQ(
      count_parameters(*GraphSage(GraphSageOptions{.in_channels = 128, .out_channels = 40})),
      217'640
  );
  EXPECT_EQ(
      count_parameters(*GraphSage(GraphSageOptions{
          .in_channels = 602,
          .out_channels = 41,
          .layers = 2,
          .parameters = SageParameters::Pyg,
      })),
      329'513
  );
  EXPECT_EQ(
      count_parameters(*GraphSage(GraphSageOptions{
          .in_channels = 100, .out_channels = 47, .parameters = SageParameters::Pyg
      })),
      206'895
  );
  EXPECT_EQ(
      count_parameters(*Gcn(GcnOptions{.in_channels = 64, .hidden_channels = 64, .out_channels = 10}
      )),
      4'810
  );
  EXPECT_EQ(
      count_parameters(*Gin(GinOptions{
          .in_channels = 1,
          .hidden_channels = 2,
          .out_channels = 2,
          .layers = 2,
          .mlp_layers = 1,
          .batch_norm = false,
          .readout = Readout::LastLayer,
      })),
      10
  );
}

TEST(Models, TrimmedLayersGiveTheSeedsWhatTheWholeSubgraphGives) {
  torch::manual_seed(1);
  const at::Tensor x = torch::randn({9, 6}, torch::kFloat64);
  std::vector<std::shared_ptr<NodeModel>> models = {
      GraphSage(
          GraphSageOptions{.in_channels = 6, .hidden_channels = 5, .out_channels = 3, .layers = 2}
      )
          .ptr(),
      Gcn(GcnOptions{.in_channels = 6, .hidden_channels = 5, .out_channels = 3, .layers = 2}).ptr(),
  };
  for (const auto& model : models) {
    model->to(torch::kFloat64);
    model->eval();
    const at::Tensor trimmed = model->forward(x, {outer(), inner()});
    const at::Tensor full = model->forward(x, {square(), square()});
    EXPECT_EQ(trimmed.sizes(), (std::vector<int64_t>{2, 3}));
    EXPECT_TRUE(torch::allclose(trimmed, full.narrow(0, 0, 2), 1e-12, 1e-12));
  }
}

TEST(Models, LayerByLayerEqualsAllAtOnceOnAWholeGraph) {
  torch::manual_seed(2);
  const graph::Block whole = random_block(30, 30, 5, 3, at::kInt);
  const InEdges edges{
      .matrix = to_csr(whole),
      .nodes = torch::arange(30),
      .norm = gcn_norm(in_degrees_without_loops(whole), at::kDouble),
  };
  const at::Tensor x = torch::randn({30, 6}, torch::kFloat64);
  std::vector<std::shared_ptr<NodeModel>> models = {
      GraphSage(GraphSageOptions{.in_channels = 6, .hidden_channels = 8, .out_channels = 3}).ptr(),
      Gcn(GcnOptions{.in_channels = 6, .hidden_channels = 8, .out_channels = 3, .layers = 3}).ptr(),
  };
  for (const auto& model : models) {
    model->to(torch::kFloat64);
    model->eval();
    ASSERT_EQ(model->num_layers(), 3);
    const at::NoGradGuard no_grad;
    at::Tensor h = x;
    for (int64_t layer = 0; layer < 3; ++layer) {
      MessagePassing& conv = model->conv(layer);
      const at::Tensor aggregated = conv.aggregate(conv.message(h), edges);
      h = model->activate(layer, conv.update(conv.root(h), aggregated));
    }
    EXPECT_TRUE(torch::allclose(h, model->forward(x, {whole, whole, whole}), 1e-12, 1e-12));
  }
}

TEST(Models, RefuseBlocksThatDoNotChain) {
  GraphSage model(
      GraphSageOptions{.in_channels = 6, .hidden_channels = 5, .out_channels = 3, .layers = 2}
  );
  const at::Tensor x = torch::randn({9, 6});
  EXPECT_THROW(model->forward(x, {outer()}), c10::Error);
  EXPECT_THROW(model->forward(x, {inner(), outer()}), c10::Error);
  EXPECT_THROW(model->forward(x.narrow(0, 0, 8), {outer(), inner()}), c10::Error);
  EXPECT_THROW(GraphSage(GraphSageOptions{.in_channels = 6, .out_channels = 0}), c10::Error);
  EXPECT_THROW(
      GraphSage(GraphSageOptions{.in_channels = 6, .out_channels = 2, .layers = 0}), c10::Error
  );
}

TEST(GraphSage, DropsOutOnlyWhileTraining) {
  torch::manual_seed(3);
  GraphSage model(
      GraphSageOptions{.in_channels = 6, .hidden_channels = 64, .out_channels = 3, .layers = 2}
  );
  const at::Tensor x = torch::randn({9, 6});
  const auto run = [&] { return model->forward(x, {outer(), inner()}); };
  EXPECT_FALSE(torch::equal(run(), run()));
  torch::manual_seed(4);
  const at::Tensor first = run();
  torch::manual_seed(4);
  EXPECT_TRUE(torch::equal(first, run()));
  model->eval();
  EXPECT_TRUE(torch::equal(run(), run()));
}

TEST(GraphSage, LearnsFromNeighboursFeatures) {
  // Each node's label is the sign of its neighbours' mean feature, which its own feature says
  // nothing about.
  torch::manual_seed(5);
  const graph::Block block = random_block(400, 400, 4, 9, at::kInt);
  const at::Tensor x = torch::randn({400, 4});
  const at::Tensor means = testing::dense(block, at::kFloat).mm(x).select(1, 0);
  const at::Tensor labels = means.gt(0).to(at::kLong);
  const at::Tensor has_neighbors = torch::diff(block.indptr).gt(0);
  GraphSage model(GraphSageOptions{
      .in_channels = 4, .hidden_channels = 32, .out_channels = 2, .layers = 2, .dropout = 0.1
  });
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
  for (int step = 0; step < 150; ++step) {
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(model->forward(x, {block, block}), labels).backward();
    optimizer.step();
  }
  model->eval();
  const at::Tensor right = model->forward(x, {block, block}).argmax(1).eq(labels);
  EXPECT_GT(right.masked_select(has_neighbors).to(at::kDouble).mean().item<double>(), 0.95);
}

TEST(Gin, ScoresEachGraphByItself) {
  torch::manual_seed(6);
  for (const Readout readout : {Readout::LastLayer, Readout::EveryLayer}) {
    Gin model(GinOptions{
        .in_channels = 4, .hidden_channels = 8, .out_channels = 3, .layers = 3, .readout = readout
    });
    model->to(torch::kFloat64);
    model->eval();
    // Two triangles with the same features, and a path of two: block-diagonal.
    const graph::Block block =
        make_block({{1, 2}, {0, 2}, {0, 1}, {4, 5}, {3, 5}, {3, 4}, {7}, {6}}, 8);
    const at::Tensor triangle = torch::randn({3, 4}, torch::kFloat64);
    const at::Tensor x = torch::cat({triangle, triangle, torch::randn({2, 4}, torch::kFloat64)});
    const at::Tensor offsets = torch::tensor({0, 3, 6, 8}, torch::kInt64);
    const at::Tensor scores = model->forward(x, block, offsets);
    EXPECT_EQ(scores.sizes(), (std::vector<int64_t>{3, 3}));
    EXPECT_TRUE(torch::allclose(scores[0], scores[1]));
    EXPECT_FALSE(torch::allclose(scores[0], scores[2]));
    // The order of the nodes inside a graph does not matter.
    const at::Tensor turned = x.index_select(0, torch::tensor({2, 0, 1, 3, 4, 5, 6, 7}));
    EXPECT_TRUE(torch::allclose(model->forward(turned, block, offsets), scores));
  }
}

TEST(Gin, RefusesABlockThatIsNotAWholeGraph) {
  Gin model(GinOptions{.in_channels = 2, .out_channels = 2});
  const at::Tensor offsets = torch::tensor({0, 1}, torch::kInt64);
  EXPECT_THROW(model->forward(torch::ones({2, 2}), make_block({{1}}, 2), offsets), c10::Error);
}

TEST(Gin, EveryLayerReadoutHasOneLinearPerLayerAndInput) {
  Gin model(GinOptions{.in_channels = 3, .hidden_channels = 8, .out_channels = 2, .layers = 2});
  // Convolutions 3-8-8 and 8-8-8 with a norm inside and one after each; scores 3-2, 8-2, 8-2.
  const int64_t convolutions = (3 * 8 + 8) + 16 + (8 * 8 + 8) + (8 * 8 + 8) + 16 + (8 * 8 + 8);
  EXPECT_EQ(count_parameters(*model), convolutions + 2 * 16 + (3 * 2 + 2) + 2 * (8 * 2 + 2));
}

// ---- mixed precision

struct MixedCase {
  std::string name;
  std::shared_ptr<torch::nn::Module> model;
  std::function<at::Tensor(const at::Tensor& x)> scores;
  int roundings = 0;  // on the way from x to a score
};

// Without dropout and norms, models of sums, products and ReLU: on absolute values and parameters
// they give the sum of all absolute values that make up a score.
std::vector<MixedCase> mixed_cases() {
  const std::vector<graph::Block> blocks = {outer(), inner()};
  std::vector<MixedCase> cases;
  const auto add_nodes = [&](const std::string& name, const std::shared_ptr<NodeModel>& model) {
    const auto scores = [=](const at::Tensor& x) { return model->forward(x, blocks); };
    // Of a layer: its input, the weights, what is between the sums, the result.
    cases.push_back({.name = name, .model = model, .scores = scores, .roundings = 8});
  };
  for (const int64_t hidden : {3, 8}) {
    add_nodes(
        "GraphSAGE " + std::to_string(hidden),
        std::make_shared<GraphSageImpl>(GraphSageOptions{
            .in_channels = 5,
            .hidden_channels = hidden,
            .out_channels = 4,
            .layers = 2,
            .dropout = 0
        })
    );
    add_nodes(
        "GCN " + std::to_string(hidden),
        std::make_shared<GcnImpl>(GcnOptions{
            .in_channels = 5,
            .hidden_channels = hidden,
            .out_channels = 4,
            .layers = 2,
            .dropout = 0
        })
    );
  }
  for (const Readout readout : {Readout::LastLayer, Readout::EveryLayer}) {
    const auto model = std::make_shared<GinImpl>(GinOptions{
        .in_channels = 5,
        .hidden_channels = 6,
        .out_channels = 4,
        .layers = 2,
        .batch_norm = false,
        .dropout = 0,
        .readout = readout
    });
    const auto scores = [=](const at::Tensor& x) {
      return model->forward(x, square(), torch::tensor({0, 4, 9}, torch::kInt64));
    };
    // Of a layer: its input, and the operands of two products; then those of the readout.
    const std::string name = readout == Readout::LastLayer ? "GIN, last" : "GIN, every";
    cases.push_back({.name = name, .model = model, .scores = scores, .roundings = 12});
  }
  for (const LinkDecoder decoder : {LinkDecoder::Dot, LinkDecoder::Mlp}) {
    const auto model = std::make_shared<GraphSageLinkImpl>(GraphSageLinkOptions{
        .encoder =
            {.in_channels = 5, .hidden_channels = 6, .out_channels = 4, .layers = 2, .dropout = 0},
        .decoder = decoder,
        .decoder_hidden_channels = 3
    });
    const LinkRows links{
        .source_rows = torch::tensor({0, 1}, torch::kInt64),
        .destination_rows = torch::tensor({1, 1}, torch::kInt64)
    };
    const auto scores = [=](const at::Tensor& x) {
      return model->forward({x}, {{outer()}, {inner()}}, links);
    };
    // Two rows' roundings in a dot product.
    const std::string name = decoder == LinkDecoder::Dot ? "links, dot" : "links, MLP";
    cases.push_back({.name = name, .model = model, .scores = scores, .roundings = 16});
  }
  return cases;
}

TEST(Models, InMixedPrecisionGiveFloat32ScoresWithinTheRoundingsOfTheirOperands) {
  torch::manual_seed(8);
  const at::Tensor x = torch::randn({9, 5}).to(at::kBFloat16);
  for (const MixedCase& each : mixed_cases()) {
    SCOPED_TRACE(each.name);
    const at::Tensor found = each.scores(x);
    ASSERT_EQ(found.scalar_type(), at::kFloat);
    found.sum().backward();
    for (const auto& parameter : each.model->named_parameters()) {
      ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
      EXPECT_EQ(parameter.value().grad().scalar_type(), at::kFloat) << parameter.key();
    }
    const at::NoGradGuard no_grad;
    const at::Tensor scores = found.detach().to(at::kDouble);
    each.model->to(at::kDouble);
    const at::Tensor expected = each.scores(x.to(at::kDouble));
    EXPECT_FALSE(torch::allclose(scores, expected, 1e-6, 1e-6)) << "nothing is rounded";
    for (at::Tensor& parameter : each.model->parameters()) parameter.abs_();
    const at::Tensor absolute = each.scores(x.to(at::kDouble).abs());
    const double share = std::pow(1 + 0x1p-8, each.roundings) - 1;
    EXPECT_TRUE((scores - expected).abs().le(absolute * share).all().item<bool>())
        << scores << expected << absolute * share;
  }
}

}  // namespace
}  // namespace gnn::nn
