// Our layers against what DGL and PyG compute: parity/make_parity.py made the numbers.
#include "tests/support/npy.h"
#include "worker/nn/conv/gcn.h"
#include "worker/nn/conv/gin.h"
#include "worker/nn/conv/sage.h"
#include "worker/nn/functional/csr.h"
#include "worker/nn/models/gcn.h"
#include "worker/nn/models/graph_sage.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

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
  return testing::read_npy(std::string(GNN_PARITY_DIR) + "/" + name + ".npy");
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

}  // namespace
}  // namespace gnn::nn
