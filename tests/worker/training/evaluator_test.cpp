#include "worker/training/evaluator.h"

#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/sampling/random_graph.h"
#include "tests/worker/training/counting_sink.h"
#include "worker/nn/models/gcn.h"
#include "worker/nn/models/graph_sage.h"
#include "worker/training/scores.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <memory>
#include <vector>

namespace gnn::training {
namespace {

constexpr int64_t kFeatures = 6;
constexpr int64_t kClasses = 5;

graph::CscGraph make_graph(int64_t num_nodes) {
  const sampling::RandomGraph edges(num_nodes, num_nodes, 4, 1);
  return graph::CscGraph::create(
             at::tensor(edges.indptr, at::kLong),
             at::tensor(edges.indices, at::kLong).to(at::kInt),
             num_nodes
  )
      .value();
}

// A graph and a model that all ranks of a test share: nothing of them changes.
struct Scene {
  explicit Scene(int64_t num_nodes)
      : whole{.graph = make_graph(num_nodes), .features = {}, .labels = {}} {
    torch::manual_seed(5);
    whole.features = torch::randn({num_nodes, kFeatures});
    whole.labels = torch::randint(kClasses, {num_nodes}, torch::kLong);
    ids = at::arange(0, num_nodes, 2);
    sage = std::make_shared<nn::GraphSageImpl>(nn::GraphSageOptions{
        .in_channels = kFeatures, .hidden_channels = 16, .out_channels = kClasses, .layers = 3
    });
    gcn = std::make_shared<nn::GcnImpl>(nn::GcnOptions{
        .in_channels = kFeatures, .hidden_channels = 16, .out_channels = kClasses, .layers = 2
    });
    sage->eval();
    gcn->eval();
  }

  Result<Evaluated> evaluate(
      nn::NodeModel& model, const comm::RankGroups& groups, const StopToken& stop
  ) const {
    const at::NoGradGuard no_grad;
    CountingSink progress;
    GNN_ASSIGN_OR_RETURN(
        const EvaluatedParts parts,
        evaluate_layer_wise(
            model,
            whole,
            {ids},
            groups,
            {.stop = stop, .progress = progress},
            {.chunk = {.nodes = 32}}
        )
    );
    if (!parts) return Evaluated();
    return parts->front();
  }

  WholeGraph whole;
  at::Tensor ids;
  std::shared_ptr<nn::NodeModel> sage;
  std::shared_ptr<nn::NodeModel> gcn;
};

progress::Measure alone(const Scene& scene, nn::NodeModel& model) {
  const StopToken stop;
  return scene.evaluate(model, comm::make_single_communicator(), stop).value().value();
}

void expect_every_rank_gets_the_counts_of_one_process(int64_t num_nodes, int64_t world) {
  const Scene scene(num_nodes);
  for (const auto& model : {scene.sage, scene.gcn}) {
    const progress::Measure expected = alone(scene, *model);
    EXPECT_EQ(expected.count, scene.ids.numel());
    comm::run_ranks(world, [&](const std::shared_ptr<comm::Communicator>& communicator) {
      const StopToken stop;
      const Evaluated found = comm::require(scene.evaluate(*model, communicator, stop));
      ASSERT_TRUE(found.has_value());
      EXPECT_EQ(*found, expected) << "rank " << communicator->rank();
    });
  }
}

TEST(LayerWise, CountsWhatOneForwardOverTheWholeGraphCounts) {
  const Scene scene(301);
  const at::NoGradGuard no_grad;
  graph::Block block{
      .indptr = scene.whole.graph.indptr(),
      .indices = scene.whole.graph.indices(),
      .edge_ids = {},
      .num_sources = 301,
      .num_destinations = 301,
  };
  const std::vector<graph::Block> blocks(3, block);
  const at::Tensor logits = scene.sage->forward(scene.whole.features, blocks);
  const int64_t correct = count_correct({.logits = logits.index_select(0, scene.ids),
                                         .labels = scene.whole.labels.index_select(0, scene.ids)})
                              .item<int64_t>();
  EXPECT_EQ(alone(scene, *scene.sage), progress::accuracy(correct, scene.ids.numel()));
}

TEST(LayerWise, CountsEachPartOfOnePass) {
  const Scene scene(301);
  const at::NoGradGuard no_grad;
  const StopToken stop;
  CountingSink progress;
  // Parts may overlap, be empty, and name a node twice.
  const std::vector<at::Tensor> parts = {
      scene.ids, at::empty({0}, at::kLong), at::arange(100, 120), at::full({2}, 100, at::kLong)
  };
  const auto communicator = comm::make_single_communicator();
  const EvaluatedParts found =
      evaluate_layer_wise(
          *scene.sage, scene.whole, parts, communicator, {.stop = stop, .progress = progress}, {}
      )
          .value();
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->size(), parts.size());
  for (size_t part = 0; part < parts.size(); ++part) {
    Scene one(301);
    one.ids = parts[part];
    EXPECT_EQ((*found)[part].count, parts[part].numel());
    // An empty part has no accuracy.
    if (parts[part].numel() > 0) {
      EXPECT_EQ((*found)[part], alone(one, *scene.sage)) << part;
    }
  }
}

TEST(LayerWise, CountsTheSameOnAnyNumberOfRanks) {
  for (const int64_t world : {2, 3, 4})
    expect_every_rank_gets_the_counts_of_one_process(301, world);
}

TEST(LayerWise, GivesARankWithoutNodesTheOthersRows) {
  expect_every_rank_gets_the_counts_of_one_process(3, 4);
}

TEST(LayerWise, StopsOnAllRanksWhenOneIsAskedTo) {
  const Scene scene(301);
  comm::run_ranks(3, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    StopToken stop;
    if (communicator->rank() == 1) stop.request();
    EXPECT_FALSE(comm::require(scene.evaluate(*scene.sage, communicator, stop)).has_value());
  });
}

}  // namespace
}  // namespace gnn::training
