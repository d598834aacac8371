#include "worker/tasks/link_graph.h"

#include "tests/worker/tasks/link_datasets.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace gnn::tasks {
namespace {

using ::testing::HasSubstr;

LinkSplit split_of(const graph::Dataset& dataset, double disjoint_train = 0) {
  return split_links(
             links_of(dataset),
             {.validation = 0.2, .test = 0.2, .disjoint_train = disjoint_train, .seed = 3}
  )
      .value();
}

// The ids of the edges of a relation that are visible.
std::set<int64_t> visible_ids(const sampling::Relation& relation) {
  const auto* const indptr = relation.graph.indptr().const_data_ptr<int64_t>();
  const auto* const ids = relation.graph.edge_ids().const_data_ptr<int64_t>();
  std::set<int64_t> visible;
  for (int64_t node = 0; node < relation.graph.num_destinations(); ++node) {
    const int64_t end =
        relation.ends.defined() ? relation.ends[node].item<int64_t>() : indptr[node + 1];
    visible.insert(ids + indptr[node], ids + end);
  }
  return visible;
}

std::set<int64_t> ids_with(const LinkSplit& split, const std::vector<LinkPart>& parts) {
  std::set<int64_t> ids;
  for (int64_t id = 0; id < split.parts.numel(); ++id) {
    const auto part = static_cast<LinkPart>(split.parts[id].item<uint8_t>());
    if (std::ranges::find(parts, part) != parts.end()) ids.insert(id);
  }
  return ids;
}

// MRR's negatives are drawn for each link.
TEST(SplitLinksOf, DrawsNoNegativesWithoutARatio) {
  std::vector<LinkEnds> complete;
  for (int64_t k = 0; k < 20; ++k) complete.emplace_back(k / 4, k % 4);
  api::GnnJobSpec spec;
  spec.dataset.split = {
      .type = api::SplitType::RandomLink,
      .validation = api::Decimal{"0.2"},
      .test = api::Decimal{"0.2"}
  };
  const auto split = split_links_of(bipartite_dataset(complete, 5, 4), spec);
  ASSERT_TRUE(split) << split.error().message;
  EXPECT_EQ(split->validation.numel(), 4);
  EXPECT_EQ(split->validation_negatives.size(0), 0);
}

TEST(LinkGraph, ShowsNoLinkOfItsOwnPartOrALaterOneInEitherDirection) {
  const graph::Dataset dataset = two_tastes(20, 12, 4);
  for (const double disjoint : {0.0, 0.5}) {
    const LinkSplit split = split_of(dataset, disjoint);
    const LinkGraph graph = make_link_graph(dataset, {0, 1}, split).value();
    EXPECT_EQ(graph.forward, 0);
    EXPECT_EQ(graph.backward, 1);
    using enum LinkPart;
    const std::map<api::Part, std::set<int64_t>> expected{
        {api::Part::Train, ids_with(split, {TrainMessages})},
        {api::Part::Validation, ids_with(split, {TrainMessages, TrainSupervision})},
        {api::Part::Test, ids_with(split, {TrainMessages, TrainSupervision, Validation})},
    };
    for (const auto& [part, ids] : expected) {
      for (const sampling::Relation& relation : visible_for(graph, part))
        EXPECT_EQ(visible_ids(relation), ids);
    }
    const auto held = ids_with(split, {Validation, Test});
    const auto training = visible_ids(visible_for(graph, api::Part::Train)[1]);
    for (const int64_t id : held) EXPECT_FALSE(training.contains(id));
  }
}

// Each link of a ring is there in both directions, with one id.
TEST(LinkGraph, OfUndirectedLinksShowsAHeldOutOneInNeitherDirection) {
  constexpr int64_t kNodes = 30;
  std::vector<int64_t> pairs;
  std::vector<int64_t> indptr{0};
  std::vector<int64_t> indices;
  std::vector<int64_t> ids;
  for (int64_t node = 0; node < kNodes; ++node) {
    const int64_t before = (node + kNodes - 1) % kNodes;
    const int64_t after = (node + 1) % kNodes;
    pairs.insert(pairs.end(), {std::min(node, after), std::max(node, after)});
    indices.insert(indices.end(), {before, after});
    ids.insert(ids.end(), {before, node});
    indptr.push_back(static_cast<int64_t>(indices.size()));
  }
  graph::Dataset dataset;
  dataset.node_types = {
      {.name = "node", .num_nodes = kNodes, .features = std::nullopt, .labels = {}}
  };
  dataset.edge_types.push_back(
      {.source = "node",
       .relation = "to",
       .destination = "node",
       .source_index = 0,
       .destination_index = 0,
       .graph = graph::CscGraph::create(
                    at::tensor(indptr, at::kLong),
                    at::tensor(indices, at::kLong),
                    kNodes,
                    at::tensor(ids, at::kLong)
       )
                    .value(),
       .features = std::nullopt}
  );
  dataset.links = graph::LinkData{
      .edge_type = 0, .reverse_edge_type = 0, .pairs = at::tensor(pairs, at::kLong).view({-1, 2})
  };
  const LinkSplit split = split_of(dataset);
  const LinkGraph graph = make_link_graph(dataset, {0}, split).value();
  EXPECT_EQ(graph.backward, graph.forward);
  const sampling::Relation training = visible_for(graph, api::Part::Train)[0];
  EXPECT_EQ(visible_ids(training), ids_with(split, {LinkPart::TrainMessages}));
  const at::Tensor visible = training.ends - training.graph.indptr().slice(0, 0, kNodes);
  EXPECT_EQ(visible.sum().item<int64_t>(), 2 * split.train.numel());
}

TEST(LinkGraph, HasOnlyTheRelationsThatAModelReadsUnderTheirNumbers) {
  const graph::Dataset dataset = two_tastes(20, 12, 4);
  const LinkGraph graph = make_link_graph(dataset, {1}, split_of(dataset)).value();
  ASSERT_EQ(graph.relations.size(), 1U);
  EXPECT_EQ(graph.relations[0].lane, 1);
  EXPECT_EQ(graph.forward, -1);
  EXPECT_EQ(graph.backward, 0);
}

// Pairs of items that share at least `at_least` users, counted one by one.
std::set<LinkEnds> joined(
    const std::vector<LinkEnds>& links, const std::set<int64_t>& ids, int64_t at_least
) {
  std::map<LinkEnds, int64_t> counts;
  for (const int64_t a : ids) {
    for (const int64_t b : ids) {
      const auto& [user, item] = links[static_cast<size_t>(a)];
      const auto& [other_user, other] = links[static_cast<size_t>(b)];
      if (user == other_user && item != other) ++counts[{item, other}];
    }
  }
  std::set<LinkEnds> pairs;
  for (const auto& [pair, count] : counts) {
    if (count >= at_least) pairs.insert(pair);
  }
  return pairs;
}

std::set<LinkEnds> edges_of(const graph::CscGraph& graph) {
  std::set<LinkEnds> edges;
  for (int64_t node = 0; node < graph.num_destinations(); ++node) {
    const int64_t end = graph.indptr()[node + 1].item<int64_t>();
    for (int64_t e = graph.indptr()[node].item<int64_t>(); e < end; ++e)
      edges.emplace(graph.indices()[e].item<int64_t>(), node);
  }
  return edges;
}

TEST(CoOccurrence, OfTrainSeesNoHeldOutLink) {
  std::vector<LinkEnds> links;
  for (int64_t k = 0; k < 60; ++k) links.emplace_back(k * 7 % 10, (k * k + k / 10) % 16);
  const graph::Dataset dataset = bipartite_dataset(links, 10, 16);
  for (const double disjoint : {0.0, 0.4}) {
    const LinkSplit split = split_of(dataset, disjoint);
    const std::set<int64_t> messages = ids_with(split, {LinkPart::TrainMessages});
    std::set<int64_t> all;
    for (int64_t id = 0; id < 60; ++id) all.insert(id);
    using enum LinkPart;
    const auto training = joined(links, ids_with(split, {TrainMessages, TrainSupervision}), 2);
    ASSERT_NE(training, joined(links, all, 2));
    ASSERT_EQ(training == joined(links, messages, 2), disjoint == 0);
    for (const auto edges : {api::CoOccurrenceEdges::Train, api::CoOccurrenceEdges::All}) {
      graph::Dataset changed = dataset;
      SilentProgressBar silent;
      const api::CoOccurrence options{
          .node = "item", .through = "user", .at_least = 2, .edges = edges
      };
      ASSERT_TRUE(add_co_occurrence(changed, options, split, {.num_threads = 2}, silent));
      ASSERT_EQ(changed.edge_types.size(), 3U);
      const graph::EdgeTypeData& type = changed.edge_types.back();
      EXPECT_EQ(type.source_index, 1);
      EXPECT_EQ(type.destination_index, 1);
      EXPECT_EQ(
          edges_of(type.graph),
          joined(links, edges == api::CoOccurrenceEdges::Train ? messages : all, 2)
      );
    }
  }
}

TEST(CoOccurrence, NamesTheFieldThatDoesNotFitTheLinks) {
  graph::Dataset dataset = two_tastes(20, 12, 4);
  const LinkSplit split = split_of(dataset);
  SilentProgressBar silent;
  const Status swapped =
      add_co_occurrence(dataset, {.node = "user", .through = "item"}, split, {}, silent);
  EXPECT_EQ(swapped.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(swapped.error().message, HasSubstr("spec.dataset.coOccurrence"));
  EXPECT_THAT(swapped.error().message, HasSubstr("expected node item through user"));
  const api::CoOccurrence right{.node = "item", .through = "user"};
  const Status large = add_co_occurrence(dataset, right, split, {.memory_bytes = 100}, silent);
  EXPECT_EQ(large.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(large.error().message, HasSubstr("spec.dataset: coOccurrence: "));
  ASSERT_TRUE(add_co_occurrence(dataset, right, split, {}, silent));
  const Status again = add_co_occurrence(dataset, right, split, {}, silent);
  EXPECT_THAT(again.error().message, HasSubstr("has edges (item, to, item) already"));
}

}  // namespace
}  // namespace gnn::tasks
