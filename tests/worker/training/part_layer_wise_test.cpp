#include "worker/training/part_layer_wise.h"

#include "tests/support/blocks.h"
#include "tests/worker/comm/in_process_ranks.h"
#include "tests/worker/shards/in_process_peer.h"
#include "tests/worker/training/counting_sink.h"
#include "worker/nn/models/gcn.h"
#include "worker/nn/models/graph_sage.h"
#include "worker/shards/row_fetcher.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::training {
namespace {

constexpr int64_t kPartNodes = 41;
constexpr int64_t kPartChannels = 6;

// Nodes without in-edges, with loops, with one neighbour twice; all nodes are the last node's
// in-neighbours.
graph::Block ring_of_parts() {
  std::vector<std::vector<int64_t>> lists(kPartNodes);
  for (int64_t node = 0; node < kPartNodes; ++node) {
    auto& list = lists[static_cast<size_t>(node)];
    for (int64_t edge = 0; edge < node % 4; ++edge)
      list.push_back((node * 7 + edge * edge * 5) % kPartNodes);
    if (node % 5 == 1) list.push_back(node);
    lists.back().push_back(node);
  }
  return testing::make_block(lists, kPartNodes, at::kInt);
}

graph::Dataset dataset_of_parts(const graph::Block& block, int64_t parts) {
  graph::Dataset dataset;
  dataset.name = "ring";
  dataset.node_types.push_back(
      {.name = "node",
       .num_nodes = kPartNodes,
       .features =
           graph::FeatureStore::create(torch::randn({kPartNodes, kPartChannels}).to(at::kFloat))
               .value(),
       .labels = at::arange(kPartNodes, at::kLong) % 3}
  );
  dataset.edge_types.push_back(
      {.source = "node",
       .relation = "to",
       .destination = "node",
       .graph = graph::CscGraph::create(block.indptr, block.indices, kPartNodes).value(),
       .features = std::nullopt}
  );
  graph::PartitionData partitions;
  partitions.book.parts = parts;
  partitions.book.offsets.push_back({0});
  for (int64_t part = 1; part <= parts; ++part)
    partitions.book.offsets[0].push_back(kPartNodes * part * part / (parts * parts));
  partitions.original_ids.resize(1);
  partitions.hot.assign(1, std::vector<graph::HotRowsData>(static_cast<size_t>(parts)));
  dataset.partitions = std::move(partitions);
  return dataset;
}

// Whether a node answers for rows of that layer.
bool gives_rows(const shards::Service& service, uint32_t layer) {
  const shards::RowsRequest request{.index = layer};
  return service.answer(static_cast<uint16_t>(shards::Method::Hidden), shards::encode(request, {}))
      .has_value();
}

// Node n has part n mod P, and asks the first node that has another one.
class PartNodes {
 public:
  PartNodes(const graph::Dataset& dataset, int64_t nodes) : parts_(dataset.partitions->book.parts) {
    for (int64_t node = 0; node < nodes; ++node) {
      parts_of_.push_back(shards::Part::create(dataset, {.part = node % parts_}).value());
      services_.push_back(std::make_shared<shards::Service>(
          parts_of_.back(), std::vector<std::shared_ptr<shards::PartSampler>>{}
      ));
      peers_.push_back(std::make_shared<shards::InProcessPeer>(services_.back(), node));
    }
  }

  // Of a rank of that node; one of them serves what the node has.
  [[nodiscard]] PartOfGraph graph_of(int64_t node, bool serves) const {
    PartOfGraph graph;
    graph.part = parts_of_[static_cast<size_t>(node)];
    for (int64_t part = 0; part < parts_; ++part)
      graph.peers.push_back(part == node % parts_ ? nullptr : peers_[static_cast<size_t>(part)]);
    if (serves) graph.service = services_[static_cast<size_t>(node)];
    graph.features =
        shards::RowFetcher::create({}, graph.part, graph.part->features(0), graph.peers).value();
    return graph;
  }

  [[nodiscard]] const auto& services() const { return services_; }

 private:
  int64_t parts_;
  std::vector<std::shared_ptr<const shards::Part>> parts_of_;
  std::vector<std::shared_ptr<shards::Service>> services_;
  std::vector<std::shared_ptr<shards::InProcessPeer>> peers_;
};

std::vector<std::shared_ptr<nn::NodeModel>> models_of_parts() {
  torch::manual_seed(6);
  std::vector<std::shared_ptr<nn::NodeModel>> models;
  for (const int64_t hidden : {4, 8}) {
    models.push_back(std::make_shared<nn::GraphSageImpl>(nn::GraphSageOptions{
        .in_channels = kPartChannels, .hidden_channels = hidden, .out_channels = 3, .layers = 3
    }));
    models.push_back(std::make_shared<nn::GcnImpl>(nn::GcnOptions{
        .in_channels = kPartChannels, .hidden_channels = hidden, .out_channels = 3, .layers = 3
    }));
  }
  for (const auto& model : models) {
    model->to(torch::kFloat64);
    model->eval();
  }
  return models;
}

TEST(PartInference, GivesWhatOneForwardGivesWhoeverHasTheRows) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(7);
  const graph::Block block = ring_of_parts();
  const auto models = models_of_parts();
  struct Layout {
    int64_t nodes;
    int64_t ranks;
    int64_t parts;
  };
  for (const Layout& layout :
       std::vector<Layout>{{1, 1, 1}, {2, 1, 2}, {3, 1, 3}, {3, 1, 2}, {2, 2, 2}, {3, 2, 2}}) {
    SCOPED_TRACE(
        std::to_string(layout.nodes) + " nodes of " + std::to_string(layout.ranks) + " ranks, " +
        std::to_string(layout.parts) + " parts"
    );
    const graph::Dataset dataset = dataset_of_parts(block, layout.parts);
    const at::Tensor features = dataset.node_types[0].features->rows().to(at::kDouble);
    const PartNodes nodes(dataset, layout.nodes);
    const at::Tensor validation = at::arange(0, kPartNodes, 2);
    const at::Tensor test = at::arange(1, kPartNodes, 3);
    for (const auto& model : models) {
      const at::Tensor expected = model->forward(
          features, std::vector<graph::Block>(static_cast<size_t>(model->num_layers()), block)
      );
      const at::Tensor right = expected.argmax(1).eq(dataset.node_types[0].labels);
      at::Tensor logits = at::full({kPartNodes, 3}, -1, at::kDouble);
      comm::run_ranks_of_nodes(layout.nodes, layout.ranks, [&](const comm::RankGroups& groups) {
        const at::NoGradGuard no_grad_here;
        const StopToken stop;
        CountingSink progress;
        const PartOfGraph graph =
            nodes.graph_of(groups.all->rank() / layout.ranks, groups.node->rank() == 0);
        // Chunks of a few edges; the last node has more than any.
        const PartInferenceOptions options{.chunk_nodes = 5, .chunk_bytes = 400};
        const EvaluationContext context{.stop = stop, .progress = progress};
        {
          PartInference inference(*model, graph, groups, context, options);
          const data::IdRange own = graph.part->own(0);
          const auto take = [&](const at::Tensor& places, const at::Tensor& rows) {
            logits.index_copy_(0, places + own.begin, rows);  // no two ranks write to one place
            if (graph.service == nullptr) return;
            EXPECT_FALSE(gives_rows(*graph.service, 1)) << "of a layer that is done";
          };
          EXPECT_TRUE(comm::require(inference.run(at::arange(own.size()), take)));
        }
        const auto measures = comm::require(
            evaluate_part_layer_wise(*model, graph, {validation, test}, groups, context, options)
        );
        ASSERT_TRUE(measures);
        EXPECT_EQ(
            measures->at(0),
            progress::accuracy(
                right.index_select(0, validation).sum().item<int64_t>(), validation.numel()
            )
        );
        EXPECT_EQ(
            measures->at(1),
            progress::accuracy(right.index_select(0, test).sum().item<int64_t>(), test.numel())
        );
      });
      for (const auto& service : nodes.services()) {
        for (uint32_t layer = 0; layer < 4; ++layer) EXPECT_FALSE(gives_rows(*service, layer));
      }
      EXPECT_TRUE(at::allclose(logits, expected, 1e-12, 1e-12)) << (logits - expected).abs().max();
    }
  }
}

}  // namespace
}  // namespace gnn::training
