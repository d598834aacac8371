#include "tests/worker/training/counting_sink.h"
#include "worker/tasks/graph_workload.h"
#include "worker/tasks/node_workload.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <memory>
#include <vector>

namespace gnn::tasks {
namespace {

constexpr int64_t kItems = 6;

// Two layers that say class 0 of everything.
class FlatNodeModel : public nn::NodeModel, public nn::MessagePassing {
 public:
  at::Tensor forward(const at::Tensor&, const std::vector<graph::Block>& blocks) override {
    return at::zeros({blocks.back().num_destinations, 2});
  }
  [[nodiscard]] int64_t num_layers() const override { return 2; }
  [[nodiscard]] nn::MessagePassing& conv(int64_t) override { return *this; }
  [[nodiscard]] at::Tensor activate(int64_t, at::Tensor h) override { return h; }

  [[nodiscard]] int64_t out_channels() const override { return 2; }
  [[nodiscard]] bool projects_first() const override { return false; }
  [[nodiscard]] bool has_root() const override { return false; }
  [[nodiscard]] at::Tensor message(const at::Tensor& x) override { return x; }
  [[nodiscard]] at::Tensor aggregate(const at::Tensor&, const nn::InEdges& edges) override {
    return at::zeros({edges.matrix.num_rows, 2});
  }
  [[nodiscard]] at::Tensor root(const at::Tensor&) override { return {}; }
  [[nodiscard]] at::Tensor update(const at::Tensor&, const at::Tensor& aggregated) override {
    return aggregated;
  }
};

class FlatGraphModel final : public nn::GraphModel {
 public:
  at::Tensor forward(const at::Tensor&, const graph::Block&, const at::Tensor& offsets) override {
    return at::zeros({offsets.size(0) - 1, 2});
  }
};

// Six nodes in a row, each of class 0 and an item of every part.
graph::Dataset row_of_nodes() {
  graph::Dataset dataset;
  dataset.name = "row";
  dataset.num_classes = 2;
  dataset.node_types.push_back(
      {.name = "node",
       .num_nodes = kItems,
       .features = graph::FeatureStore::create(at::ones({kItems, 1})).value(),
       .labels = at::zeros({kItems}, at::kLong)}
  );
  dataset.edge_types.push_back(graph::EdgeTypeData{
      .source = "node",
      .relation = "to",
      .destination = "node",
      .graph = graph::CscGraph::create(
                   torch::tensor({0, 0, 1, 2, 3, 4, 5}, at::kLong),
                   torch::tensor({0, 1, 2, 3, 4}, at::kLong),
                   kItems
      )
                   .value(),
      .features = std::nullopt
  });
  const at::Tensor all = at::arange(kItems);
  dataset.split = {.train = all, .validation = all, .test = all};
  return dataset;
}

// The same nodes, each a graph of its own.
graph::Dataset six_graphs() {
  graph::Dataset dataset = row_of_nodes();
  dataset.edge_types[0].graph =
      graph::CscGraph::create(at::zeros({kItems + 1}, at::kLong), at::empty({0}, at::kLong), kItems)
          .value();
  dataset.graphs = graph::GraphCollection{
      .node_offsets = at::arange(kItems + 1), .labels = at::zeros({kItems}, at::kLong)
  };
  return dataset;
}

api::Training batches_of_two(api::EvaluationMode mode) {
  api::Training training;
  training.batch_size = 2;
  training.evaluation.mode = mode;
  return training;
}

// Marks of one evaluation of six items.
int64_t marks_of(training::Workload& workload) {
  training::CountingSink sink;
  const StopToken stop;
  const auto evaluated =
      workload.evaluate(training::Part::Validation, {.stop = stop, .progress = sink});
  EXPECT_TRUE(evaluated.has_value());
  if (evaluated) {
    EXPECT_EQ(**evaluated, progress::accuracy(kItems, kItems));
  }
  return sink.marks;
}

std::unique_ptr<NodeWorkload> node_workload(api::EvaluationMode mode) {
  NodeWorkloadOptions options;
  options.training = batches_of_two(mode);
  options.sampling.fanout = {-1, -1};
  auto workload = NodeWorkload::create(
      row_of_nodes(), std::make_shared<FlatNodeModel>(), comm::make_single_communicator(), options
  );
  return std::move(workload).value();
}

// Keeps what it was last given, and says class 0 of everything.
class RecordingModel final : public FlatNodeModel {
 public:
  at::Tensor forward(const at::Tensor& x, const std::vector<graph::Block>& blocks) override {
    input = x;
    return FlatNodeModel::forward(x, blocks);
  }

  at::Tensor input;
};

// Each of 64 nodes receives from all of them; a node's feature is its number.
graph::Dataset complete_graph() {
  constexpr int64_t kNodes = 64;
  graph::Dataset dataset = row_of_nodes();
  dataset.node_types[0].num_nodes = kNodes;
  dataset.node_types[0].features =
      graph::FeatureStore::create(at::arange(kNodes, at::kFloat).view({kNodes, 1})).value();
  dataset.node_types[0].labels = at::zeros({kNodes}, at::kLong);
  dataset.edge_types[0].graph =
      graph::CscGraph::create(
          at::arange(0, kNodes * kNodes + 1, kNodes), at::arange(kNodes).repeat({kNodes}), kNodes
      )
          .value();
  return dataset;
}

TEST(Evaluation, DrawsOtherNeighboursThanTrainingAndTheSameInEachEvaluation) {
  NodeWorkloadOptions options;
  options.training = batches_of_two(api::EvaluationMode::Sampled);
  options.training.batch_size = kItems;
  options.training.shuffle = false;
  options.sampling.fanout = {8};
  const auto model = std::make_shared<RecordingModel>();
  const auto workload =
      NodeWorkload::create(complete_graph(), model, comm::make_single_communicator(), options)
          .value();
  ASSERT_TRUE(workload->start_epoch(0, 0));
  ASSERT_TRUE(workload->next_batch());
  static_cast<void>(workload->forward());
  const at::Tensor trained = model->input;
  marks_of(*workload);
  const at::Tensor evaluated = model->input;
  EXPECT_FALSE(at::equal(trained, evaluated));
  marks_of(*workload);
  EXPECT_TRUE(at::equal(model->input, evaluated));
}

// An evaluation may take longer than any time-out: its batches must show that it goes on.

TEST(Evaluation, MarksEveryBatchWhenSampled) {
  EXPECT_EQ(marks_of(*node_workload(api::EvaluationMode::Sampled)), 3);
}

TEST(Evaluation, MarksEveryBatchAndExchangeWhenLayerWise) {
  EXPECT_GE(marks_of(*node_workload(api::EvaluationMode::LayerWise)), 3);
}

TEST(Evaluation, TellsHowManyBatchesAreDone) {
  class Sink final : public training::CountingSink {
   public:
    void on_evaluation(const progress::EvaluationProgress& evaluation) override {
      ++times;
      EXPECT_EQ(evaluation.unit, progress::EvaluationUnit::Batches);
      EXPECT_EQ(evaluation.done, times);
      EXPECT_EQ(evaluation.total, 2);
    }

    int64_t times = 0;
  } sink;
  const StopToken stop;
  const auto evaluated =
      node_workload(api::EvaluationMode::Sampled)
          ->evaluate(
              training::Part::Validation, {.stop = stop, .progress = sink, .max_batches = 2}
          );
  EXPECT_TRUE(evaluated.has_value());
  EXPECT_EQ(sink.times, 2);
}

// Notes the phases, and counts the marks.
class PhaseSink final : public training::CountingSink {
 public:
  void on_phase(progress::Phase phase) override { phases.push_back(phase); }

  std::vector<progress::Phase> phases;
};

const std::vector<training::Part> kAllParts = {
    training::Part::Train, training::Part::Validation, training::Part::Test
};

TEST(Evaluation, MeasuresAllPartsInOnePassWhenLayerWise) {
  const auto workload = node_workload(api::EvaluationMode::LayerWise);
  PhaseSink sink;
  const StopToken stop;
  const auto evaluated =
      workload->evaluate_parts(kAllParts, {.stop = stop, .progress = sink}).value();
  ASSERT_TRUE(evaluated.has_value());
  ASSERT_EQ(evaluated->size(), 3U);
  for (const progress::Measure& part : *evaluated)
    EXPECT_EQ(part, progress::accuracy(kItems, kItems));
  EXPECT_EQ(sink.phases, std::vector<progress::Phase>{progress::Phase::Validate});
  EXPECT_EQ(sink.marks, marks_of(*workload)) << "as many as for one part";
}

TEST(Evaluation, MeasuresPartAfterPartWhenSampled) {
  const auto workload = node_workload(api::EvaluationMode::Sampled);
  PhaseSink sink;
  const StopToken stop;
  const auto evaluated =
      workload->evaluate_parts(kAllParts, {.stop = stop, .progress = sink}).value();
  ASSERT_TRUE(evaluated.has_value());
  EXPECT_EQ(evaluated->size(), 3U);
  EXPECT_EQ(
      sink.phases,
      (std::vector<progress::Phase>{
          progress::Phase::Validate, progress::Phase::Validate, progress::Phase::Test
      })
  );
  EXPECT_EQ(sink.marks, 3 * marks_of(*workload));
}

TEST(Evaluation, EndsAfterTheMostBatchesExceptOnTheTestSet) {
  const auto workload = node_workload(api::EvaluationMode::Sampled);
  training::CountingSink sink;
  const StopToken stop;
  const auto evaluated =
      workload->evaluate_parts(kAllParts, {.stop = stop, .progress = sink, .max_batches = 2})
          .value();
  ASSERT_TRUE(evaluated.has_value());
  EXPECT_EQ((*evaluated)[0].count, 4);
  EXPECT_EQ((*evaluated)[1].count, 4);
  EXPECT_EQ((*evaluated)[2].count, kItems);
}

TEST(Evaluation, MarksEveryBatchOfGraphs) {
  auto workload = GraphWorkload::create(
      six_graphs(),
      std::make_shared<FlatGraphModel>(),
      comm::make_single_communicator(),
      {.training = batches_of_two(api::EvaluationMode::Sampled)}
  );
  ASSERT_TRUE(workload.has_value());
  EXPECT_EQ(marks_of(**workload), 3);
}

}  // namespace
}  // namespace gnn::tasks
