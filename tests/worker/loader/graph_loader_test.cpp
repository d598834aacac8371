#include "worker/loader/graph_loader.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace gnn::loader {
namespace {

constexpr int64_t kGraphs = 50;
constexpr int64_t kFeatures = 3;

// Graph g is a path of 1 + g % 4 nodes; node v has the features {v, v + 0.5, -v}.
graph::Dataset paths() {
  std::vector<int64_t> offsets{0};
  std::vector<int64_t> indptr{0};
  std::vector<int64_t> indices;
  for (int64_t g = 0; g < kGraphs; ++g) {
    const int64_t first = offsets.back();
    const int64_t last = first + 1 + g % 4;
    for (int64_t v = first; v < last; ++v) {
      if (v > first) indices.push_back(v - 1);
      indptr.push_back(static_cast<int64_t>(indices.size()));
    }
    offsets.push_back(last);
  }
  const int64_t nodes = offsets.back();
  const at::Tensor v = at::arange(nodes, at::kFloat);
  graph::Dataset dataset;
  dataset.name = "paths";
  dataset.num_classes = 5;
  dataset.node_types.push_back(
      {.name = "node",
       .num_nodes = nodes,
       .features = graph::FeatureStore::create(at::stack({v, v + 0.5, -v}, 1).contiguous()).value(),
       .labels = {}}
  );
  dataset.edge_types.push_back(graph::EdgeTypeData{
      .source = "node",
      .relation = "to",
      .destination = "node",
      .graph = graph::CscGraph::create(
                   at::tensor(indptr, at::kLong), at::tensor(indices, at::kLong), nodes
      )
                   .value(),
      .features = std::nullopt
  });
  dataset.graphs = graph::GraphCollection{
      .node_offsets = at::tensor(offsets, at::kLong), .labels = at::arange(kGraphs) % 5
  };
  return dataset;
}

at::Tensor even_graphs() {
  return at::arange(0, kGraphs, 2);
}

GraphLoaderOptions graph_options(int64_t num_threads, int64_t prefetch = 2) {
  GraphLoaderOptions options;
  options.items.batch_size = 4;
  options.items.shuffle = true;
  options.items.seed = 3;
  options.num_threads = num_threads;
  options.prefetch = prefetch;
  return options;
}

std::unique_ptr<GraphLoader> loader_of(const GraphLoaderOptions& options) {
  return GraphLoader::create(options, paths(), even_graphs()).value();
}

std::vector<GraphMiniBatch> read_epoch(
    GraphLoader& loader, int64_t epoch, int64_t first_batch = 0
) {
  EXPECT_TRUE(loader.start_epoch(epoch, first_batch));
  std::vector<GraphMiniBatch> batches;
  while (true) {
    auto batch = loader.next();
    EXPECT_TRUE(batch) << batch.error().message;
    if (!batch || !batch->has_value()) return batches;
    batches.push_back(std::move(**batch));
  }
}

void expect_same(const std::vector<GraphMiniBatch>& a, const std::vector<GraphMiniBatch>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].batch_index, b[i].batch_index);
    EXPECT_TRUE(a[i].x.equal(b[i].x));
    EXPECT_TRUE(a[i].graphs.labels.equal(b[i].graphs.labels));
    EXPECT_TRUE(a[i].graphs.node_offsets.equal(b[i].graphs.node_offsets));
    EXPECT_TRUE(a[i].graphs.block.indptr.equal(b[i].graphs.block.indptr));
    EXPECT_TRUE(a[i].graphs.block.indices.equal(b[i].graphs.block.indices));
  }
}

TEST(GraphLoader, GivesTheGraphsOfTheItemSamplerWithTheirFeatures) {
  const graph::Dataset dataset = paths();
  const at::Tensor ids = even_graphs();
  sampling::core::ItemSamplerOptions items = graph_options(0).items;
  items.num_items = ids.numel();
  const auto epoch = sampling::core::ItemSampler::create(items).value().epoch(2);
  const auto batches = read_epoch(*loader_of(graph_options(2)), 2);
  ASSERT_EQ(static_cast<int64_t>(batches.size()), epoch.num_batches());
  for (size_t i = 0; i < batches.size(); ++i) {
    std::vector<int64_t> graphs;
    for (const int64_t place : epoch.batch(static_cast<int64_t>(i))) graphs.push_back(2 * place);
    const GraphBatch expected = batch_graphs(dataset, graphs);
    EXPECT_EQ(batches[i].batch_index, static_cast<int64_t>(i));
    EXPECT_TRUE(batches[i].graphs.labels.equal(expected.labels));
    EXPECT_TRUE(batches[i].graphs.block.indices.equal(expected.block.indices));
    EXPECT_TRUE(batches[i].x.equal(dataset.features().rows().index_select(0, expected.node_ids)));
  }
}

TEST(GraphLoader, GivesTheSameBatchesForAnyNumberOfThreads) {
  const auto expected = read_epoch(*loader_of(graph_options(0)), 5);
  for (const int64_t num_threads : {1, 2, 8}) {
    expect_same(read_epoch(*loader_of(graph_options(num_threads, 1)), 5), expected);
    expect_same(read_epoch(*loader_of(graph_options(num_threads, 5)), 5), expected);
  }
}

TEST(GraphLoader, ResumesAnEpochAtABatch) {
  const auto loader = loader_of(graph_options(2));
  auto whole = read_epoch(*loader, 1);
  whole.erase(whole.begin(), whole.begin() + 4);
  expect_same(read_epoch(*loader, 1, 4), whole);
  EXPECT_TRUE(read_epoch(*loader, 1, loader->num_batches()).empty());
  EXPECT_FALSE(loader->start_epoch(1, loader->num_batches() + 1));
}

TEST(GraphLoader, StopWakesTheReaderAndAnEpochCanStartAfterIt) {
  const auto loader = loader_of(graph_options(2));
  ASSERT_TRUE(loader->start_epoch(0));
  loader->stop();
  EXPECT_EQ(loader->next().error().kind, ErrorKind::Cancelled);
  EXPECT_EQ(static_cast<int64_t>(read_epoch(*loader, 0).size()), loader->num_batches());
}

// The meta device stands for any other than the CPU: shapes and order without a GPU.
TEST(GraphLoader, DeliversOnTheChosenDevice) {
  GraphLoaderOptions options = graph_options(2);
  options.device = at::Device(at::kMeta);
  const auto batches = read_epoch(*loader_of(options), 0);
  const auto expected = read_epoch(*loader_of(graph_options(0)), 0);
  ASSERT_EQ(batches.size(), expected.size());
  for (size_t i = 0; i < batches.size(); ++i) {
    EXPECT_TRUE(batches[i].x.is_meta());
    EXPECT_TRUE(batches[i].graphs.block.indices.is_meta());
    EXPECT_TRUE(batches[i].graphs.node_offsets.is_meta());
    EXPECT_TRUE(batches[i].graphs.labels.is_meta());
    EXPECT_EQ(batches[i].x.sizes(), expected[i].x.sizes());
  }
}

TEST(GraphLoader, MeasuresItsStages) {
  for (const int64_t num_threads : {0, 2}) {
    const auto loader = loader_of(graph_options(num_threads));
    int64_t bytes = 0;
    for (const GraphMiniBatch& batch : read_epoch(*loader, 0))
      bytes += static_cast<int64_t>(batch.x.nbytes());
    const LoaderStats stats = loader->stats();
    EXPECT_EQ(stats.batches, loader->num_batches());
    EXPECT_EQ(stats.gathered_bytes, bytes);
    EXPECT_GT(stats.sample_seconds, 0);
    EXPECT_GT(stats.fetch_seconds, 0);
    EXPECT_GT(stats.training_stall_seconds, 0);
  }
}

TEST(GraphLoader, RefusesBadInput) {
  const auto beyond =
      GraphLoader::create(graph_options(1), paths(), at::full({1}, kGraphs, at::kLong));
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().kind, ErrorKind::Data);
  EXPECT_EQ(beyond.error().message, "graph_ids[0]: expected an id in [0, 50), found 50");
  EXPECT_EQ(
      GraphLoader::create(graph_options(-1), paths(), even_graphs()).error().kind,
      ErrorKind::Configuration
  );
  graph::Dataset one_graph = paths();
  one_graph.graphs.reset();
  EXPECT_FALSE(GraphLoader::create(graph_options(1), one_graph, even_graphs()));
  graph::Dataset no_features = paths();
  no_features.node_types[0].features.reset();
  EXPECT_FALSE(GraphLoader::create(graph_options(1), no_features, even_graphs()));
}

}  // namespace
}  // namespace gnn::loader
