#include "worker/tasks/models.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace gnn::tasks {
namespace {

graph::EdgeTypeData edge_type(
    const std::vector<std::string>& nodes, int64_t source, std::string relation, int64_t destination
) {
  return {
      .source = nodes[static_cast<size_t>(source)],
      .relation = std::move(relation),
      .destination = nodes[static_cast<size_t>(destination)],
      .source_index = source,
      .destination_index = destination,
      .graph = graph::CscGraph::create(
                   at::zeros({2}, at::kLong), at::empty({0}, at::kInt), /*num_sources=*/1
      )
                   .value(),
      .features = {},
  };
}

// A node of each type, and no edge.
graph::Dataset shop() {
  const std::vector<std::string> nodes = {"item", "user"};
  graph::Dataset dataset;
  for (const std::string& name : nodes) {
    dataset.node_types.push_back({.name = name, .num_nodes = 1, .features = {}, .labels = {}});
  }
  dataset.edge_types = {
      edge_type(nodes, 1, "to", 0), edge_type(nodes, 0, "to", 0), edge_type(nodes, 0, "rev_to", 1)
  };
  return dataset;
}

LinkModelShape shape_of(const graph::Dataset& dataset) {
  return {.dataset = dataset, .link = 0, .widths = {64, 32}};
}

api::Model bipartite_sage() {
  return {
      .type = api::ModelType::BipartiteSAGE,
      .bipartite_sage = api::BipartiteSage{.hidden_channels = 16, .out_channels = 8},
  };
}

void expect_refused(const graph::Dataset& dataset, const std::string& words, int64_t link = 0) {
  LinkModelShape shape = shape_of(dataset);
  shape.link = link;
  const auto model = make_link_model(bipartite_sage(), shape);
  ASSERT_FALSE(model) << words;
  EXPECT_EQ(model.error().kind, ErrorKind::Configuration);
  EXPECT_NE(model.error().message.find(words), std::string::npos) << model.error().message;
}

TEST(LinkModels, FindTheEdgeTypesOfABipartiteSage) {
  const graph::Dataset dataset = shop();
  const auto model = make_link_model(bipartite_sage(), shape_of(dataset));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->reads(), (std::vector<int64_t>{1, 2}));
  const auto parameters = (*model)->named_parameters();
  EXPECT_EQ(parameters["user_encoder.conv2.lin_l.weight"].sizes(), (std::vector<int64_t>{16, 64}));
  EXPECT_EQ(parameters["user_encoder.conv2.lin_r.weight"].sizes(), (std::vector<int64_t>{16, 32}));
  EXPECT_EQ(parameters["user_encoder.lin.weight"].sizes(), (std::vector<int64_t>{8, 16}));
}

TEST(LinkModels, SayWhatABipartiteSageLacks) {
  graph::Dataset dataset = shop();
  dataset.edge_types.pop_back();
  expect_refused(dataset, "from item to user, found none: dataset.addReverse");
  dataset = shop();
  dataset.edge_types.erase(dataset.edge_types.begin() + 1);
  expect_refused(dataset, "from item to item, found none: dataset.coOccurrence");
  dataset = shop();
  dataset.edge_types.push_back(dataset.edge_types[1]);
  dataset.edge_types.back().relation = "like";
  expect_refused(dataset, "found (item, to, item) and (item, like, item)");
  expect_refused(shop(), "found the link (item, to, item)", /*link=*/1);
}

TEST(LinkModels, GiveAGraphSageTheWidthOfTheDataAndItsDecoder) {
  api::Model options{
      .type = api::ModelType::GraphSAGE,
      .graph_sage = api::GraphSage{.layers = 2, .hidden_channels = 16},
  };
  graph::Dataset dataset = shop();
  const auto refused = make_link_model(options, shape_of(dataset));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::Configuration);

  dataset.node_types.pop_back();
  dataset.edge_types = {dataset.edge_types[1]};
  const auto dot = make_link_model(options, shape_of(dataset)).value();
  EXPECT_EQ(dot->num_layers(), 2);
  EXPECT_EQ(
      dot->named_parameters()["encoder.layers_0.fc_self.weight"].sizes(),
      (std::vector<int64_t>{16, 64})
  );
  EXPECT_EQ(
      dot->named_parameters()["encoder.layers_1.fc_self.weight"].sizes(),
      (std::vector<int64_t>{16, 16})
  );
  EXPECT_FALSE(dot->named_parameters().contains("decoder.lin1.weight"));
  const auto decoder_of = [&](std::optional<int64_t> hidden) {
    options.decoder = api::Decoder{.type = api::DecoderType::MLP, .hidden_channels = hidden};
    const auto model = make_link_model(options, shape_of(dataset)).value();
    return model->named_parameters()["decoder.lin1.weight"].sizes().vec();
  };
  EXPECT_EQ(decoder_of(5), (std::vector<int64_t>{5, 32}));
  EXPECT_EQ(decoder_of({}), (std::vector<int64_t>{16, 32}));
}

}  // namespace
}  // namespace gnn::tasks
