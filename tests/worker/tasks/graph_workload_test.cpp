#include "worker/tasks/graph_workload.h"

#include "worker/tasks/data_path.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <memory>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

constexpr int64_t kGraphs = 6;

// Two scores per graph: the sum of its first feature, and 0. Keeps what it was given.
class SumModel final : public nn::GraphModel {
 public:
  at::Tensor forward(const at::Tensor& x, const graph::Block& block, const at::Tensor& offsets)
      override {
    inputs.push_back(x);
    edges.push_back(block.indices.numel());
    at::Tensor logits = at::zeros({offsets.size(0) - 1, 2});
    for (int64_t g = 0; g + 1 < offsets.size(0); ++g) {
      const int64_t first = offsets[g].item<int64_t>();
      logits[g][0] = x.slice(0, first, offsets[g + 1].item<int64_t>()).select(1, 0).sum();
    }
    return logits;
  }

  std::vector<at::Tensor> inputs;
  std::vector<int64_t> edges;
};

// Graph g is a pair of nodes, 2 g -> 2 g + 1; node v has the features {v, 1}, in float16.
graph::Dataset pairs() {
  std::vector<int64_t> indptr{0};
  std::vector<int64_t> indices;
  for (int64_t g = 0; g < kGraphs; ++g) {
    indptr.push_back(g);
    indptr.push_back(g + 1);
    indices.push_back(2 * g);
  }
  const at::Tensor v = at::arange(2 * kGraphs, at::kFloat);
  graph::Dataset dataset;
  dataset.name = "pairs";
  dataset.num_classes = 2;
  dataset.node_types.push_back(
      {.name = "node",
       .num_nodes = 2 * kGraphs,
       .features =
           graph::FeatureStore::create(at::stack({v, at::ones_like(v)}, 1).to(at::kHalf)).value(),
       .labels = {}}
  );
  dataset.edge_types.push_back(graph::EdgeTypeData{
      .source = "node",
      .relation = "to",
      .destination = "node",
      .graph = graph::CscGraph::create(
                   at::tensor(indptr, at::kLong), at::tensor(indices, at::kLong), 2 * kGraphs
      )
                   .value(),
      .features = std::nullopt
  });
  dataset.graphs = graph::GraphCollection{
      .node_offsets = at::arange(0, 2 * kGraphs + 1, 2), .labels = at::arange(kGraphs) % 2
  };
  const at::Tensor all = at::arange(kGraphs);
  dataset.split = {.train = all, .validation = all, .test = at::empty({0}, at::kLong)};
  return dataset;
}

struct Fixture {
  Fixture() {
    GraphWorkloadOptions options;
    options.training.batch_size = 2;
    options.training.shuffle = false;
    workload =
        GraphWorkload::create(pairs(), model, comm::make_single_communicator(), options).value();
  }

  std::shared_ptr<SumModel> model = std::make_shared<SumModel>();
  std::unique_ptr<GraphWorkload> workload;
};

TEST(GraphWorkload, GivesEveryGraphItsLabelAndItsFeaturesAsFloat) {
  const Fixture f;
  ASSERT_TRUE(f.workload->start_epoch(0, 0));
  std::vector<int64_t> labels;
  for (int64_t batch = 0; batch < 3; ++batch) {
    const auto size = f.workload->next_batch();
    ASSERT_TRUE(size && size->has_value());
    EXPECT_EQ((*size)->items, 2);
    const training::Scores scores = f.workload->forward();
    const at::Tensor& x = f.model->inputs.back();
    EXPECT_EQ(x.scalar_type(), at::kFloat);
    EXPECT_TRUE(x.select(1, 0).equal(at::arange(4 * batch, 4 * batch + 4, at::kFloat)));
    EXPECT_EQ(f.model->edges.back(), 2);
    EXPECT_EQ(scores.logits[0][0].item<float>(), static_cast<float>(8 * batch + 1));
    for (int64_t i = 0; i < 2; ++i) labels.push_back(scores.labels[i].item<int64_t>());
  }
  EXPECT_EQ(labels, (std::vector<int64_t>{0, 1, 0, 1, 0, 1}));
  EXPECT_FALSE(f.workload->next_batch()->has_value());
}

TEST(GraphWorkload, LoadsABatchBeforeForward) {
  const Fixture f;
  ASSERT_TRUE(f.workload->start_epoch(0, 0));
  for (int64_t batch = 0; batch < 3; ++batch) ASSERT_TRUE(f.workload->next_batch()->has_value());
  EXPECT_TRUE(f.model->inputs.empty());
  const progress::DataPath loaded = f.workload->data_path();
  EXPECT_EQ(loaded.feature_bytes, 2 * kGraphs * 2 * 2) << "nodes, features, bytes of a float16";
  EXPECT_GT(loaded.training_stall_seconds, 0) << "the first batch is waited for";
  static_cast<void>(f.workload->forward());
  EXPECT_EQ(f.workload->data_path().feature_bytes, loaded.feature_bytes);
}

TEST(GraphWorkload, AddsUpTheDataPathOverEpochs) {
  const Fixture f;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    ASSERT_TRUE(f.workload->start_epoch(epoch, 0));
    while (f.workload->next_batch()->has_value()) {
    }
  }
  EXPECT_EQ(f.workload->data_path().feature_bytes, 2 * (2 * kGraphs * 2 * 2));
}

TEST(GraphWorkload, ResumesAnEpochAtABatch) {
  const Fixture f;
  ASSERT_TRUE(f.workload->start_epoch(0, 2));
  ASSERT_TRUE(f.workload->next_batch()->has_value());
  static_cast<void>(f.workload->forward());
  EXPECT_TRUE(f.model->inputs.back().select(1, 0).equal(at::arange(8, 12, at::kFloat)));
  EXPECT_FALSE(f.workload->next_batch()->has_value());
}

TEST(LoadingThreads, TakeAQuarterOfTheCpusOrForAGpuAllButTwo) {
  const c10::Device gpu(c10::kCUDA, 0);
  EXPECT_EQ(loading_threads(16, c10::kCPU), 4);
  EXPECT_EQ(loading_threads(2, c10::kCPU), 1);
  EXPECT_EQ(loading_threads(16, gpu), 14);
  EXPECT_EQ(loading_threads(1, gpu), 1);
}

TEST(GraphWorkload, RefusesADataSetOfOneGraph) {
  graph::Dataset dataset = pairs();
  dataset.graphs.reset();
  const auto workload = GraphWorkload::create(
      std::move(dataset), std::make_shared<SumModel>(), comm::make_single_communicator(), {}
  );
  ASSERT_FALSE(workload.has_value());
  EXPECT_EQ(workload.error().kind, ErrorKind::Data);
  EXPECT_EQ(workload.error().message, "pairs: expected a set of graphs, found one graph");
}

}  // namespace
}  // namespace gnn::tasks
