#include "worker/interop/state_dict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gnn::interop {
namespace {

using ::testing::HasSubstr;

api::Model model_of(api::ModelType type) {
  return {.type = type};
}

api::Model gin_of(const api::Gin& gin) {
  api::Model model = model_of(api::ModelType::GIN);
  model.gin = gin;
  return model;
}

std::string key(const api::Model& model, Library library, std::string_view own) {
  const auto found = state_dict_key(model, library, own);
  return found ? *found : found.error().message;
}

TEST(StateDict, NamesLayersAsTheLibrariesModelsDo) {
  struct Case {
    api::Model model;
    std::string own;
    std::string dgl;
    std::string pyg;
  };
  const api::Model sage = model_of(api::ModelType::GraphSAGE);
  const api::Model bipartite = model_of(api::ModelType::BipartiteSAGE);
  const api::Model gin = gin_of({});
  const api::Model tutorial =
      gin_of({.layers = 1, .mlp_layers = 1, .readout = api::Readout::LastLayer});
  const std::vector<Case> cases = {
      {sage, "layers_2.fc_neigh.weight", "layers.2.fc_neigh.weight", "convs.2.lin_l.weight"},
      {sage, "layers_2.fc_self.weight", "layers.2.fc_self.weight", "convs.2.lin_r.weight"},
      {sage, "layers_2.fc_self.bias", "layers.2.fc_self.bias", "convs.2.lin_l.bias"},
      {sage, "layers_0.lin_l.weight", "layers.0.fc_neigh.weight", "convs.0.lin_l.weight"},
      {sage, "layers_0.lin_l.bias", "layers.0.fc_self.bias", "convs.0.lin_l.bias"},
      {sage, "layers_0.lin_r.weight", "layers.0.fc_self.weight", "convs.0.lin_r.weight"},
      {sage, "encoder.layers_0.lin_l.bias", "layers.0.fc_self.bias", "encoder.convs.0.lin_l.bias"},
      {sage, "decoder.lin1.weight", "predictor.0.weight", "decoder.lin1.weight"},
      {sage, "decoder.lin2.bias", "predictor.2.bias", "decoder.lin2.bias"},
      {tutorial, "layers_0.mlp.0.weight", "conv1.apply_func.weight", "convs.0.nn.weight"},
      {tutorial, "layers_0.eps", "conv1.eps", "convs.0.eps"},
      {gin, "layers_3.mlp.3.bias", "ginlayers.3.apply_func.3.bias", "convs.3.nn.3.bias"},
      {gin, "norms_3.running_mean", "batch_norms.3.running_mean", "norms.3.running_mean"},
      {gin, "scores_5.weight", "linear_prediction.5.weight", "lins.5.weight"},
      {bipartite,
       "user_encoder.conv3.lin_l.bias",
       "user_encoder.conv3.fc_self.bias",
       "user_encoder.conv3.lin_l.bias"},
      {bipartite, "item_encoder.lin.weight", "item_encoder.lin.weight", "item_encoder.lin.weight"},
      {bipartite, "decoder.lin2.weight", "decoder.lin2.weight", "decoder.lin2.weight"},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(key(each.model, Library::Dgl, each.own), each.dgl);
    EXPECT_EQ(key(each.model, Library::Pyg, each.own), each.pyg);
  }
  const api::Model gcn = model_of(api::ModelType::GCN);
  EXPECT_EQ(key(gcn, Library::Pyg, "convs_1.weight"), "convs.1.lin.weight");
  EXPECT_EQ(key(gcn, Library::Pyg, "convs_1.bias"), "convs.1.bias");
}

TEST(StateDict, RefusesALibraryThatComputesOtherwise) {
  const Status found = check_library(model_of(api::ModelType::GCN), Library::Dgl);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(found.error().message, HasSubstr("spec.export.names: must be PyG with GCN"));
}

TEST(StateDict, KnowsNoKeyOfAnotherModelsTensor) {
  for (const api::ModelType type :
       {api::ModelType::GraphSAGE,
        api::ModelType::GCN,
        api::ModelType::GIN,
        api::ModelType::BipartiteSAGE}) {
    for (const char* own : {"", "weight", "layers_", "layers_0.", "layers_0.x", "conv1.weight"}) {
      const auto found = state_dict_key(model_of(type), Library::Pyg, own);
      ASSERT_FALSE(found) << own;
      EXPECT_EQ(found.error().kind, ErrorKind::Internal);
    }
  }
}

}  // namespace
}  // namespace gnn::interop
