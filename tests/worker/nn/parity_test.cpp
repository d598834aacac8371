// Our layers against what DGL and PyG compute: parity/make_parity.py made the numbers.
#include "tests/support/blocks.h"
#include "tests/support/npy.h"
#include "tests/support/source_dir.h"
#include "worker/nn/conv/gcn.h"
#include "worker/nn/conv/gin.h"
#include "worker/nn/conv/sage.h"
#include "worker/nn/functional/csr.h"
#include "worker/nn/models/bipartite_sage.h"
#include "worker/nn/models/gcn.h"
#include "worker/nn/models/graph_sage.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/optim/adam.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace gnn::nn {
namespace {

constexpr int64_t kNodes = 12;
constexpr int64_t kIn = 5;
constexpr int64_t kHidden = 7;
constexpr int64_t kOut = 3;

at::Tensor load(const std::string& name) {
  return testing::read_npy(gnn::testing::source_dir() + "/tests/worker/nn/parity/" + name + ".npy");
}

// All edges: six nodes have lists of in-neighbours, twelve occur in them.
graph::Block whole() {
  const at::Tensor indptr = load("indptr");
  return {
      .indptr = indptr,
      .indices = load("indices").to(at::kInt),
      .edge_ids = {},
      .num_sources = kNodes,
      .num_destinations = indptr.numel() - 1,
  };
}

// What the two seeds need of it in the last layer.
graph::Block trimmed() {
  const graph::Block all = whole();
  return {
      .indptr = all.indptr.narrow(0, 0, 3),
      .indices = all.indices.narrow(0, 0, all.indptr[2].item<int64_t>()),
      .edge_ids = {},
      .num_sources = 6,
      .num_destinations = 2,
  };
}

using Renames = std::function<std::string(const std::string&)>;

std::string as_it_is(const std::string& name) {
  return name;
}

void take_parameters(torch::nn::Module& module, const std::string& prefix, const Renames& rename) {
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : module.named_parameters()) {
    parameter.value().copy_(load(prefix + "." + rename(parameter.key())));
  }
}

void expect_same(
    const std::string& prefix, const std::function<at::Tensor(const at::Tensor&)>& run
) {
  const at::Tensor x = load("x").requires_grad_();
  const at::Tensor out = run(x);
  const at::Tensor expected = load(prefix + ".out");
  EXPECT_TRUE(torch::allclose(out, expected, 1e-5, 1e-5)) << out << "\n" << expected;
  out.pow(2).sum().backward();
  EXPECT_TRUE(torch::allclose(x.grad(), load(prefix + ".grad_x"), 1e-4, 1e-5));
}

void expect_sage(const std::string& prefix, int64_t out, SageParameters parameters) {
  SageConv layer(SageConvOptions{.in_channels = kIn, .out_channels = out, .parameters = parameters}
  );
  take_parameters(*layer, prefix, as_it_is);
  expect_same(prefix, [&](const at::Tensor& x) { return layer->forward(x, whole()); });
}

TEST(Parity, SageConvOfDgl) {
  expect_sage("dgl_sage_narrow", kOut, SageParameters::Dgl);
  expect_sage("dgl_sage_wide", kHidden, SageParameters::Dgl);
}

TEST(Parity, SageConvOfPyg) {
  expect_sage("pyg_sage_narrow", kOut, SageParameters::Pyg);
  expect_sage("pyg_sage_wide", kHidden, SageParameters::Pyg);
}

TEST(Parity, GcnConvOfPyg) {
  at::Tensor degrees = torch::zeros({kNodes}, torch::kInt64);
  degrees.narrow(0, 0, 6).copy_(in_degrees_without_loops(whole()));
  for (const auto& [prefix, out] : {std::pair{"pyg_gcn_narrow", kOut}, {"pyg_gcn_wide", kHidden}}) {
    GcnConv layer(GcnConvOptions{.in_channels = kIn, .out_channels = out});
    take_parameters(*layer, prefix, [](const std::string& name) {
      return name == "weight" ? "lin.weight" : name;
    });
    expect_same(prefix, [&](const at::Tensor& x) { return layer->forward(x, whole(), degrees); });
  }
}

TEST(Parity, GinConvOfBoth) {
  for (const auto& [prefix, mlp] : {std::pair{"dgl_gin", "apply_func"}, {"pyg_gin", "nn"}}) {
    GinConv layer(GinConvOptions{
        .in_channels = kIn,
        .out_channels = kOut,
        .mlp_layers = 1,
        .batch_norm = false,
        .eps = 0.25,
        .learn_eps = std::string(mlp) == "nn",
    });
    take_parameters(*layer, prefix, [&](const std::string& name) {
      return name == "eps" ? name : std::string(mlp) + name.substr(std::string("mlp.0").size());
    });
    expect_same(prefix, [&](const at::Tensor& x) { return layer->forward(x, whole()); });
  }
}

TEST(Parity, GcnModelOfPygOnTheSampledSubgraph) {
  Gcn model(
      GcnOptions{.in_channels = kIn, .hidden_channels = kHidden, .out_channels = kOut, .layers = 2}
  );
  model->eval();
  take_parameters(*model, "pyg_gcn_model", [](const std::string& name) {
    // convs_0.weight -> convs.0.lin.weight
    const std::string field = name.substr(8);
    return "convs." + name.substr(6, 1) + (field == "weight" ? ".lin.weight" : "." + field);
  });
  expect_same("pyg_gcn_model", [&](const at::Tensor& x) {
    return model->forward(x, {whole(), trimmed()});
  });
}

TEST(Parity, SageModelOfPygOnTheSampledSubgraph) {
  GraphSage model(GraphSageOptions{
      .in_channels = kIn,
      .hidden_channels = kHidden,
      .out_channels = kOut,
      .layers = 2,
      .dropout = 0,
      .parameters = SageParameters::Pyg,
  });
  take_parameters(*model, "pyg_sage_model", [](const std::string& name) {
    return "convs." + name.substr(7, 1) + "." + name.substr(9);  // layers_0.x -> convs.0.x
  });
  expect_same("pyg_sage_model", [&](const at::Tensor& x) {
    return model->forward(x, {whole(), trimmed()});
  });
}

// ---- one training step of the model of PyG's example for Taobao, on a whole graph

constexpr int64_t kLinkUsers = 6;
constexpr int64_t kLinkItems = 8;

// The in-edges of `destinations` nodes, in the order of `edges` [2, E].
graph::Block block_of_edges(const at::Tensor& edges, int64_t sources, int64_t destinations) {
  std::vector<std::vector<int64_t>> lists(static_cast<size_t>(destinations));
  for (int64_t edge = 0; edge < edges.size(1); ++edge) {
    lists[static_cast<size_t>(edges[1][edge].item<int64_t>())].push_back(
        edges[0][edge].item<int64_t>()
    );
  }
  return testing::make_block(lists, sources, at::kInt);
}

BipartiteSage model_of_the_example(const at::Tensor& parameters) {
  BipartiteSage model(BipartiteSageOptions{
      .user_type = 0,
      .item_type = 1,
      .item_to_item = 1,
      .item_to_user = 0,
      .user_channels = 5,
      .item_channels = 9,
      .hidden_channels = 7,
      .out_channels = 4,
  });
  model->to(parameters.scalar_type());
  const torch::NoGradGuard no_grad;
  int64_t begin = 0;
  for (const at::Tensor& parameter : model->parameters()) {
    parameter.copy_(parameters.narrow(0, begin, parameter.numel()).view(parameter.sizes()));
    begin += parameter.numel();
  }
  EXPECT_EQ(begin, parameters.numel());
  return model;
}

at::Tensor flat(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(tensor.detach().reshape({-1}));
  return torch::cat(parts);
}

struct Tolerances {
  double outputs;
  double gradients;
  double stepped;  // a first step of Adam is the learning rate, 1e-3, times a gradient's sign
};

void expect_step_of_the_example(at::ScalarType type, const Tolerances& tolerances) {
  const auto expect = [](const at::Tensor& found, const std::string& name, double tolerance) {
    const at::Tensor expected = load("pyg_links." + name).view(found.sizes());
    EXPECT_TRUE(torch::allclose(found.to(at::kDouble), expected, tolerance, tolerance))
        << name << ": off by " << (found.to(at::kDouble) - expected).abs().max();
  };
  BipartiteSage model = model_of_the_example(load("pyg_links.parameters").to(type));
  const at::Tensor users = load("pyg_links.x_user").to(type).requires_grad_();
  const at::Tensor items = load("pyg_links.x_item").to(type).requires_grad_();
  const at::Tensor links = load("pyg_links.links");
  const std::vector<graph::Block> relations = {
      block_of_edges(load("pyg_links.user_to_item").flip(0), kLinkItems, kLinkUsers),
      block_of_edges(load("pyg_links.item_to_item"), kLinkItems, kLinkItems),
  };
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
  const at::Tensor logits = model->forward(
      {users, items},
      {relations, relations},
      {.source_type = 0,
       .destination_type = 1,
       .source_rows = links[0].contiguous(),
       .destination_rows = links[1].contiguous()}
  );
  const at::Tensor labels = torch::cat({torch::ones({6}), torch::zeros({6})}).to(type);
  const at::Tensor loss = torch::nn::functional::binary_cross_entropy_with_logits(logits, labels);
  loss.backward();
  optimizer.step();

  expect(logits, "logits", tolerances.outputs);
  expect(loss.view({1}), "loss", tolerances.outputs);
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : model->parameters()) gradients.push_back(parameter.grad());
  expect(flat(gradients), "gradients", tolerances.gradients);
  expect(users.grad(), "grad_user", tolerances.gradients);
  expect(items.grad(), "grad_item", tolerances.gradients);
  expect(flat(model->parameters()), "stepped", tolerances.stepped);
}

TEST(Parity, BipartiteSageNamesItsParametersAsPyg) {
  std::ifstream file(gnn::testing::source_dir() + "/tests/worker/nn/parity/pyg_links.names.txt");
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) names.push_back(line);
  const BipartiteSage model = model_of_the_example(load("pyg_links.parameters"));
  EXPECT_EQ(model->named_parameters().keys(), names);
}

TEST(Parity, BipartiteSageStepsAsPygInFloat64) {
  expect_step_of_the_example(at::kDouble, {.outputs = 1e-12, .gradients = 1e-12, .stepped = 1e-9});
}

TEST(Parity, BipartiteSageStepsAsPygInFloat32) {
  expect_step_of_the_example(at::kFloat, {.outputs = 1e-6, .gradients = 1e-6, .stepped = 1e-5});
}

}  // namespace
}  // namespace gnn::nn
