#include "tests/support/blocks.h"
#include "tests/support/gradcheck.h"
#include "worker/nn/conv/gcn.h"
#include "worker/nn/conv/gin.h"
#include "worker/nn/conv/message_passing.h"
#include "worker/nn/conv/sage.h"
#include "worker/nn/functional/aggregate.h"
#include "worker/nn/functional/csr.h"
#include "worker/nn/pool/graph_pool.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>
#include <vector>

namespace gnn::nn {
namespace {

using testing::gradients_match;
using testing::random_block;

std::vector<std::string> names(const torch::nn::Module& module) {
  std::vector<std::string> result;
  for (const auto& entry : module.named_parameters()) result.push_back(entry.key());
  return result;
}

// Every parameter of the layer, and the features.
std::vector<at::Tensor> inputs(torch::nn::Module& layer, const at::Tensor& x) {
  std::vector<at::Tensor> tensors = layer.parameters();
  tensors.push_back(x);
  return tensors;
}

at::Tensor features(int64_t rows, int64_t width) {
  return torch::randn({rows, width}, torch::kFloat64).requires_grad_();
}

double largest(const at::Tensor& tensor) {
  return tensor.abs().max().item<double>();
}

TEST(SageConv, HasTheParametersOfDgl) {
  torch::manual_seed(1);
  SageConv layer(SageConvOptions{.in_channels = 300, .out_channels = 200});
  EXPECT_EQ(
      names(*layer), (std::vector<std::string>{"fc_neigh.weight", "fc_self.weight", "fc_self.bias"})
  );
  // Xavier with ReLU's gain, and the bias as torch's Linear has it.
  const double bound = std::sqrt(2.0) * std::sqrt(6.0 / 500);
  const auto parameters = layer->named_parameters();
  for (const char* name : {"fc_neigh.weight", "fc_self.weight"}) {
    EXPECT_LE(largest(parameters[name]), bound);
    EXPECT_GT(largest(parameters[name]), 0.99 * bound);
  }
  EXPECT_LE(largest(parameters["fc_self.bias"]), 1 / std::sqrt(300.0));
}

TEST(SageConv, HasTheParametersOfPyg) {
  torch::manual_seed(1);
  SageConv layer(
      SageConvOptions{.in_channels = 300, .out_channels = 200, .parameters = SageParameters::Pyg}
  );
  EXPECT_EQ(
      names(*layer), (std::vector<std::string>{"lin_l.weight", "lin_l.bias", "lin_r.weight"})
  );
  const double bound = 1 / std::sqrt(300.0);
  for (const at::Tensor& parameter : layer->parameters()) {
    EXPECT_LE(largest(parameter), bound);
    EXPECT_GT(largest(parameter), 0.9 * bound);
  }
}

TEST(SageConv, GradientsMatchDifferences) {
  torch::manual_seed(2);
  const graph::Block block = random_block(4, 7, 3, 5);
  for (const int64_t out : {2, 6}) {
    SageConv layer(SageConvOptions{.in_channels = 4, .out_channels = out});
    layer->to(torch::kFloat64);
    const at::Tensor x = features(7, 4);
    EXPECT_TRUE(gradients_match([&] { return layer->forward(x, block).pow(2); }, inputs(*layer, x))
    );
  }
}

TEST(SageConv, TakesDestinationsOfAnotherWidth) {
  torch::manual_seed(7);
  SageConv layer(SageConvOptions{
      .in_channels = 400,
      .out_channels = 200,
      .destination_channels = 100,
      .parameters = SageParameters::Pyg,
  });
  const auto parameters = layer->named_parameters();
  EXPECT_EQ(parameters["lin_l.weight"].sizes(), (std::vector<int64_t>{200, 400}));
  EXPECT_EQ(parameters["lin_r.weight"].sizes(), (std::vector<int64_t>{200, 100}));
  EXPECT_LE(largest(parameters["lin_l.bias"]), 1 / std::sqrt(400.0));
  EXPECT_GT(largest(parameters["lin_r.weight"]), 0.9 / std::sqrt(100.0));
  const graph::Block block = random_block(6, 3, 2, 9);
  const at::Tensor sources = torch::randn({3, 400});
  const at::Tensor destinations = torch::randn({6, 100});
  const at::Tensor edges = testing::dense(block, at::kFloat);
  const at::Tensor expected = torch::linear(
                                  (edges / edges.sum(1, true).clamp_min(1)).mm(sources),
                                  parameters["lin_l.weight"],
                                  parameters["lin_l.bias"]
                              ) +
                              torch::linear(destinations, parameters["lin_r.weight"]);
  EXPECT_TRUE(torch::allclose(layer->forward(sources, destinations, block), expected, 1e-4, 1e-4));
}

TEST(SageConv, GivesTwoLayersTogetherWhatEachGivesAlone) {
  torch::manual_seed(8);
  const graph::Block block = random_block(4, 7, 3, 5, at::kInt);
  // Together they gather the inputs, or their projections, or, of width 8, the inputs where the
  // first alone would have projected.
  for (const int64_t in : {2, 9, 8}) {
    SageConv first(SageConvOptions{.in_channels = in, .out_channels = 3});
    SageConv second(SageConvOptions{.in_channels = in, .out_channels = 5});
    first->to(torch::kFloat64);
    second->to(torch::kFloat64);
    const at::Tensor x = features(7, in);
    std::vector<at::Tensor> leaves = inputs(*first, x);
    for (const at::Tensor& parameter : second->parameters()) leaves.push_back(parameter);
    const auto weigh = [](const at::Tensor& a, const at::Tensor& b) {
      return a.pow(2).sum() + 3 * b.pow(2).sum();
    };
    const auto [of_first, of_second] = forward_together(*first, *second, x, block);
    const at::Tensor alone_first = first->forward(x, block);
    const at::Tensor alone_second = second->forward(x, block);
    EXPECT_TRUE(torch::allclose(of_first, alone_first, 1e-12, 1e-12)) << in;
    EXPECT_TRUE(torch::allclose(of_second, alone_second, 1e-12, 1e-12)) << in;
    const auto together = torch::autograd::grad({weigh(of_first, of_second)}, leaves);
    const auto alone = torch::autograd::grad({weigh(alone_first, alone_second)}, leaves);
    for (size_t i = 0; i < leaves.size(); ++i)
      EXPECT_TRUE(torch::allclose(together[i], alone[i], 1e-12, 1e-12)) << in << ", leaf " << i;
  }
}

TEST(SageConv, RefusesNoChannels) {
  EXPECT_THROW(SageConv(SageConvOptions{.in_channels = 0, .out_channels = 2}), c10::Error);
}

TEST(GcnConv, HasTheParametersOfPyg) {
  torch::manual_seed(1);
  GcnConv layer(GcnConvOptions{.in_channels = 300, .out_channels = 200});
  EXPECT_EQ(names(*layer), (std::vector<std::string>{"bias", "weight"}));
  const auto parameters = layer->named_parameters();
  EXPECT_EQ(largest(parameters["bias"]), 0);
  EXPECT_LE(largest(parameters["weight"]), std::sqrt(6.0 / 500));
  EXPECT_GT(largest(parameters["weight"]), 0.99 * std::sqrt(6.0 / 500));
}

TEST(GcnConv, GradientsMatchDifferences) {
  torch::manual_seed(3);
  const graph::Block block = random_block(4, 7, 3, 6, at::kInt);
  const at::Tensor degrees = torch::tensor({3, 1, 0, 2, 2, 0, 1}, torch::kInt64);
  for (const int64_t out : {2, 6}) {
    GcnConv layer(GcnConvOptions{.in_channels = 4, .out_channels = out});
    layer->to(torch::kFloat64);
    const at::Tensor x = features(7, 4);
    EXPECT_TRUE(
        gradients_match([&] { return layer->forward(x, block, degrees).pow(2); }, inputs(*layer, x))
    );
  }
}

// The in-edges of two nodes of the block's graph, out of order, one of them with a self-loop.
InEdges edges_of_nodes_five_and_two(const graph::Block& whole) {
  return {
      .matrix =
          {.indptr = torch::tensor({0, 3, 4}, torch::kInt64),
           .indices = torch::tensor({5, 1, 1, 6}, torch::kInt32),
           .num_rows = 2,
           .num_cols = 7},
      .nodes = torch::tensor({5, 2}, torch::kInt64),
      .norm = gcn_norm(in_degrees_without_loops(whole), at::kDouble),
  };
}

TEST(MessagePassing, GivesSomeNodesWhatForwardGivesAll) {
  torch::manual_seed(5);
  const graph::Block whole =
      testing::make_block({{1}, {}, {6}, {0, 3}, {}, {5, 1, 1}, {2, 6}}, 7, at::kInt);
  const InEdges edges = edges_of_nodes_five_and_two(whole);
  const at::Tensor x = torch::randn({7, 4}, torch::kFloat64);
  const at::NoGradGuard no_grad;
  const auto some = [&](MessagePassing& layer) {
    const at::Tensor own = x.index_select(0, edges.nodes);
    return layer.update(layer.root(own), layer.aggregate(layer.message(x), edges));
  };
  for (const int64_t out : {2, 4, 6}) {
    SageConv sage(SageConvOptions{.in_channels = 4, .out_channels = out});
    sage->to(torch::kFloat64);
    const at::Tensor of_sage = sage->forward(x, whole).index_select(0, edges.nodes);
    EXPECT_TRUE(torch::allclose(some(*sage), of_sage, 1e-12, 1e-12)) << out;

    GcnConv gcn(GcnConvOptions{.in_channels = 4, .out_channels = out});
    gcn->to(torch::kFloat64);
    const at::Tensor of_gcn =
        gcn->forward(x, whole, in_degrees_without_loops(whole)).index_select(0, edges.nodes);
    EXPECT_TRUE(torch::allclose(some(*gcn), of_gcn, 1e-12, 1e-12)) << out;
  }
}

TEST(MessagePassing, HasGradientsWithSourcesApartFromMoreDestinations) {
  torch::manual_seed(6);
  const graph::Block block = random_block(6, 3, 4, 8);
  const InEdges edges{
      .matrix = {.indptr = block.indptr, .indices = block.indices, .num_rows = 6, .num_cols = 3},
      .nodes = {},
      .norm = {},
  };
  for (const int64_t out : {2, 6}) {
    SageConv layer(SageConvOptions{.in_channels = 4, .out_channels = out});
    layer->to(torch::kFloat64);
    const at::Tensor sources = features(3, 4);
    const at::Tensor destinations = features(6, 4);
    std::vector<at::Tensor> leaves = inputs(*layer, sources);
    leaves.push_back(destinations);
    const auto run = [&] {
      const at::Tensor aggregated = layer->aggregate(layer->message(sources), edges);
      return layer->update(layer->root(destinations), aggregated).pow(2);
    };
    EXPECT_TRUE(gradients_match(run, leaves)) << out;
  }
}

TEST(GinConv, KeepsEpsAsBufferUnlessItLearns) {
  GinConvOptions options{.in_channels = 3, .out_channels = 2, .mlp_layers = 1, .batch_norm = false};
  GinConv fixed(options);
  EXPECT_EQ(names(*fixed), (std::vector<std::string>{"mlp.0.weight", "mlp.0.bias"}));
  EXPECT_EQ(fixed->named_buffers().keys(), std::vector<std::string>{"eps"});
  options.learn_eps = true;
  EXPECT_EQ(
      names(*GinConv(options)), (std::vector<std::string>{"eps", "mlp.0.weight", "mlp.0.bias"})
  );
}

TEST(GinConv, GradientsMatchDifferences) {
  torch::manual_seed(4);
  const graph::Block block = random_block(6, 8, 3, 7);
  for (const bool learn_eps : {false, true}) {
    GinConv layer(GinConvOptions{
        .in_channels = 3,
        .hidden_channels = 5,
        .out_channels = 2,
        .mlp_layers = 2,
        .batch_norm = true,
        .eps = 0.5,
        .learn_eps = learn_eps,
    });
    layer->to(torch::kFloat64);
    const at::Tensor x = features(8, 3);
    EXPECT_TRUE(gradients_match(
        [&] { return layer->forward(x, block).pow(2); },
        inputs(*layer, x),
        {.absolute_tolerance = 1e-6}
    ));
  }
}

TEST(GraphPool, PoolsAsItsOptionSays) {
  const at::Tensor x = torch::tensor({{1.0}, {5.0}, {3.0}});
  const at::Tensor offsets = torch::tensor({0, 2, 3}, torch::kInt64);
  GraphPool mean(GraphPoolOptions{.pooling = Pooling::Mean});
  EXPECT_TRUE(torch::equal(mean->forward(x, offsets), torch::tensor({{3.0}, {3.0}})));
  GraphPool max(GraphPoolOptions{.pooling = Pooling::Max});
  EXPECT_TRUE(torch::equal(max->forward(x, offsets), torch::tensor({{5.0}, {3.0}})));
}

}  // namespace
}  // namespace gnn::nn
