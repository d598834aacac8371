#include "worker/nn/models/bipartite_sage.h"

#include "tests/support/blocks.h"
#include "worker/graph/csc_graph.h"
#include "worker/nn/models/gradient_check.h"
#include "worker/sampling/neighbor.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>
#include <vector>

namespace gnn::nn {
namespace {

constexpr int64_t kUsers = 40;
constexpr int64_t kItems = 60;
constexpr int64_t kUserType = 0;
constexpr int64_t kItemType = 1;
// The relations that the model reads come before the one that it does not.
constexpr int64_t kItemToItem = 0;
constexpr int64_t kItemToUser = 1;

struct BatchOptions {
  std::vector<int64_t> fanout;
  sampling::SamplingRule rule = sampling::SamplingRule::NewNodes;
  bool replace = false;
  bool pruned = false;  // without the relation from users to items
};

// Users 3 and 39 and a part of the items have no in-edges; lists hold some items twice.
sampling::SampledSubgraph sample_batch(const BatchOptions& options) {
  const auto relation = [](int64_t source, int64_t destination, int64_t degree, int64_t seed) {
    const int64_t sources = source == kUserType ? kUsers : kItems;
    const int64_t destinations = destination == kUserType ? kUsers : kItems;
    const graph::Block all = testing::random_block(destinations, sources, degree, seed, at::kInt);
    return sampling::Relation{
        .graph = graph::CscGraph::create(all.indptr, all.indices, sources).value(),
        .source_type = source,
        .destination_type = destination,
    };
  };
  std::vector<sampling::Relation> relations = {
      relation(kItemType, kItemType, 4, 11),
      relation(kItemType, kUserType, 5, 12),
  };
  if (!options.pruned) relations.push_back(relation(kUserType, kItemType, 6, 13));
  sampling::NeighborSamplerOptions sampler;
  sampler.fanout = options.fanout;
  sampler.rule = options.rule;
  sampler.replace = options.replace;
  const at::Tensor users = torch::tensor({3, 7, 12, 20, 39}, torch::kInt64);
  const at::Tensor items = torch::tensor({0, 5, 18, 33, 41, 59}, torch::kInt64);
  return sampling::NeighborSampler::create(sampler, {kUsers, kItems}, relations)
      .value()
      .sample({users, items}, {.seed = 3})
      .value();
}

LinkRows some_links() {
  return {
      .source_type = kUserType,
      .destination_type = kItemType,
      .source_rows = torch::tensor({0, 1, 2, 3, 4, 4, 1}, torch::kInt64),
      .destination_rows = torch::tensor({5, 4, 3, 2, 1, 0, 0}, torch::kInt64),
  };
}

BipartiteSage small_model() {
  BipartiteSage model(BipartiteSageOptions{
      .user_type = kUserType,
      .item_type = kItemType,
      .item_to_item = kItemToItem,
      .item_to_user = kItemToUser,
      .user_channels = 3,
      .item_channels = 9,
      .hidden_channels = 6,
      .out_channels = 4,
  });
  model->to(torch::kFloat64);
  return model;
}

// A row of x for each of all users and items, and those of a batch.
struct Tables {
  at::Tensor users = torch::randn({kUsers, 3}, torch::kFloat64).requires_grad_();
  at::Tensor items = torch::randn({kItems, 9}, torch::kFloat64).requires_grad_();

  [[nodiscard]] TypedInputs of(const sampling::SampledSubgraph& batch) const {
    return {
        users.index_select(0, batch.node_ids[kUserType]),
        items.index_select(0, batch.node_ids[kItemType]),
    };
  }
};

// The tutorial's model, written with dense matrices over the union of all sampled edges, of which
// each layer reads all.
class WholeSubgraph {
 public:
  WholeSubgraph(const BipartiteSage& model, const sampling::SampledSubgraph& batch)
      : parameters_(model->named_parameters()),
        item_to_item_(means_of(batch, kItemToItem, kItemType)),
        item_to_user_(means_of(batch, kItemToUser, kUserType)) {}

  [[nodiscard]] at::Tensor logits(const TypedInputs& x, const LinkRows& links) const {
    const at::Tensor& users = x[kUserType];
    const at::Tensor& items = x[kItemType];
    at::Tensor of_items = sage("item_encoder.conv1", item_to_item_, items, items);
    of_items = sage("item_encoder.conv2", item_to_item_, of_items, of_items);
    of_items = linear("item_encoder.lin", of_items);
    const at::Tensor hidden_items = sage("user_encoder.conv1", item_to_item_, items, items);
    at::Tensor of_users = sage("user_encoder.conv2", item_to_user_, items, users);
    of_users = sage("user_encoder.conv3", item_to_user_, hidden_items, of_users);
    of_users = linear("user_encoder.lin", of_users);
    const at::Tensor pairs = torch::cat(
        {of_users.index_select(0, links.source_rows),
         of_items.index_select(0, links.destination_rows)},
        1
    );
    return linear("decoder.lin2", linear("decoder.lin1", pairs).relu()).view({-1});
  }

 private:
  // [all sampled destinations, all sampled sources]; a row sums to 1, or has no entry.
  static at::Tensor means_of(
      const sampling::SampledSubgraph& batch, int64_t edge_type, int64_t destination_type
  ) {
    // By the rule NewNodes, the outermost block has the edges of all hops.
    const at::Tensor edges = testing::dense(batch.blocks[0][static_cast<size_t>(edge_type)]);
    const int64_t rows = batch.node_ids[static_cast<size_t>(destination_type)].size(0);
    const at::Tensor all = torch::zeros({rows, batch.node_ids[kItemType].size(0)}, torch::kFloat64);
    all.narrow(0, 0, edges.size(0)).narrow(1, 0, edges.size(1)).copy_(edges);
    return all / all.sum(1, /*keepdim=*/true).clamp_min(1);
  }

  [[nodiscard]] at::Tensor linear(const std::string& name, const at::Tensor& x) const {
    return torch::linear(x, parameters_[name + ".weight"], parameters_[name + ".bias"]);
  }

  [[nodiscard]] at::Tensor sage(
      const std::string& name,
      const at::Tensor& means,
      const at::Tensor& sources,
      const at::Tensor& destinations
  ) const {
    const at::Tensor own = torch::linear(destinations, parameters_[name + ".lin_r.weight"]);
    return (linear(name + ".lin_l", means.mm(sources)) + own).relu();
  }

  torch::OrderedDict<std::string, at::Tensor> parameters_;
  at::Tensor item_to_item_;
  at::Tensor item_to_user_;
};

void expect_close(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  EXPECT_TRUE(torch::allclose(found, expected, 1e-11, 1e-12)) << what << "\n"
                                                              << found << "\n"
                                                              << expected;
}

TEST(BipartiteSage, HasAsManyParametersAsInTheTutorial) {
  BipartiteSage model(BipartiteSageOptions{
      .user_type = 0,
      .item_type = 1,
      .item_to_item = 0,
      .item_to_user = 1,
      .user_channels = 64,
      .item_channels = 64,
  });
  int64_t count = 0;
  for (const at::Tensor& parameter : model->parameters()) count += parameter.numel();
  EXPECT_EQ(count, 57'921);
}

TEST(BipartiteSage, StartsFromTheDistributionOfTheTutorial) {
  torch::manual_seed(1);
  BipartiteSage model(BipartiteSageOptions{
      .user_type = 0,
      .item_type = 1,
      .item_to_item = 0,
      .item_to_user = 1,
      .user_channels = 64,
      .item_channels = 100,
  });
  const auto parameters = model->named_parameters();
  for (const auto& [name, inputs] :
       {std::pair{"item_encoder.conv1.lin_l.weight", 100.0},
        {"item_encoder.conv1.lin_l.bias", 100.0},
        {"user_encoder.conv2.lin_l.weight", 100.0},
        {"user_encoder.conv2.lin_r.weight", 64.0},
        {"user_encoder.conv3.lin_r.weight", 64.0},
        {"user_encoder.lin.weight", 64.0},
        {"decoder.lin1.weight", 128.0},
        {"decoder.lin2.weight", 64.0}}) {
    const double largest = parameters[name].abs().max().item<double>();
    EXPECT_LE(largest, 1 / std::sqrt(inputs)) << name;
    EXPECT_GT(largest, 0.9 / std::sqrt(inputs)) << name;
  }
}

TEST(BipartiteSage, GivesTheSeedsWhatTheTutorialGivesThemOnTheWholeSubgraph) {
  torch::manual_seed(2);
  BipartiteSage model = small_model();
  const Tables tables;
  const LinkRows links = some_links();
  std::vector<at::Tensor> leaves = model->parameters();
  leaves.push_back(tables.users);
  leaves.push_back(tables.items);
  const std::vector<std::string> names = model->named_parameters().keys();
  for (const BatchOptions& options :
       {BatchOptions{.fanout = {3, 2}},
        BatchOptions{.fanout = {2, 2}, .replace = true},
        BatchOptions{.fanout = {2, 1}, .pruned = true},
        BatchOptions{.fanout = {-1, -1}},
        BatchOptions{.fanout = {0, 0}}}) {
    const sampling::SampledSubgraph batch = sample_batch(options);
    const at::Tensor found = model->forward(tables.of(batch), batch.blocks, links);
    const at::Tensor expected = WholeSubgraph(model, batch).logits(tables.of(batch), links);
    const std::string which = "fan-out " + std::to_string(options.fanout[0]);
    expect_close(found, expected, which);
    const auto gradients = torch::autograd::grad({found.pow(2).sum()}, leaves);
    const auto of_whole = torch::autograd::grad({expected.pow(2).sum()}, leaves);
    for (size_t i = 0; i < leaves.size(); ++i)
      expect_close(gradients[i], of_whole[i], which + ", leaf " + std::to_string(i));
  }
}

TEST(BipartiteSage, NeedsNoOtherRelationThanItReads) {
  torch::manual_seed(3);
  BipartiteSage model = small_model();
  EXPECT_EQ(model->reads(), (std::vector<int64_t>{kItemToItem, kItemToUser}));
  const Tables tables;
  const sampling::SampledSubgraph whole = sample_batch({.fanout = {3, 2}});
  sampling::SampledSubgraph pruned = sample_batch({.fanout = {3, 2}, .pruned = true});
  for (auto& layer : pruned.blocks) layer.emplace_back();
  EXPECT_LT(pruned.node_ids[kUserType].size(0), whole.node_ids[kUserType].size(0));
  const LinkRows links = some_links();
  expect_close(
      model->forward(tables.of(pruned), pruned.blocks, links),
      model->forward(tables.of(whole), whole.blocks, links),
      "pruned"
  );
}

TEST(BipartiteSage, GivesTheSameByEitherRuleIfAllNeighboursAreTaken) {
  torch::manual_seed(4);
  BipartiteSage model = small_model();
  const Tables tables;
  const sampling::SampledSubgraph new_nodes = sample_batch({.fanout = {-1, -1}});
  const sampling::SampledSubgraph all_seen =
      sample_batch({.fanout = {-1, -1}, .rule = sampling::SamplingRule::AllSeen});
  const LinkRows links = some_links();
  expect_close(
      model->forward(tables.of(all_seen), all_seen.blocks, links),
      model->forward(tables.of(new_nodes), new_nodes.blocks, links),
      "rules"
  );
}

TEST(BipartiteSage, UsesEachParameterEvenWithoutEdges) {
  torch::manual_seed(5);
  BipartiteSage model = small_model();
  const Tables tables;
  for (const int64_t fanout : {2, 0}) {
    const sampling::SampledSubgraph batch = sample_batch({.fanout = {fanout, fanout}});
    const at::Tensor logits = model->forward(tables.of(batch), batch.blocks, some_links());
    const Status checked = check_gradients(*model, logits.sum());
    EXPECT_TRUE(checked) << checked.error().message;
  }
}

TEST(BipartiteSage, RefusesWhatDoesNotFit) {
  BipartiteSage model = small_model();
  const Tables tables;
  const sampling::SampledSubgraph batch = sample_batch({.fanout = {3, 2}});
  const TypedInputs x = tables.of(batch);
  LinkRows links = some_links();
  EXPECT_NO_THROW(model->forward(x, batch.blocks, links));
  EXPECT_THROW(model->forward(x, {batch.blocks[0]}, links), c10::Error);
  EXPECT_THROW(model->forward(x, {batch.blocks[1], batch.blocks[0]}, links), c10::Error);
  EXPECT_THROW(model->forward({x[0], {}}, batch.blocks, links), c10::Error);
  EXPECT_THROW(model->forward({x[0]}, batch.blocks, links), c10::Error);
  EXPECT_THROW(model->forward({x[0], x[1].narrow(0, 0, 8)}, batch.blocks, links), c10::Error);
  EXPECT_THROW(model->forward({x[1], x[0]}, batch.blocks, links), c10::Error);
  links.source_rows = torch::full({7}, 5, torch::kInt64);  // no seed
  EXPECT_THROW(model->forward(x, batch.blocks, links), c10::Error);
  std::swap(links.source_type, links.destination_type);
  EXPECT_THROW(model->forward(x, batch.blocks, links), c10::Error);
  BipartiteSageOptions options = model->options();
  options.hidden_channels = 0;
  EXPECT_THROW(BipartiteSage{options}, c10::Error);
  options = model->options();
  options.item_type = options.user_type;
  EXPECT_THROW(BipartiteSage{options}, c10::Error);
}

}  // namespace
}  // namespace gnn::nn
