#pragma once

#include "tests/support/blocks.h"
#include "tests/worker/training/counting_sink.h"
#include "worker/graph/block.h"
#include "worker/nn/models/gcn.h"
#include "worker/nn/models/graph_sage.h"
#include "worker/training/layer_wise.h"

#include <ATen/ATen.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace gnn::training {

inline constexpr int64_t kInChannels = 6;
inline constexpr int64_t kOutChannels = 3;

/// Nodes without in-edges, with loops, with one neighbour twice; all nodes are the last node's
/// in-neighbours.
inline graph::Block small_graph(int64_t num_nodes) {
  std::vector<std::vector<int64_t>> lists(static_cast<size_t>(num_nodes));
  for (int64_t node = 0; node < num_nodes; ++node) {
    for (int64_t edge = 0; edge < node % 4; ++edge) {
      lists[static_cast<size_t>(node)].push_back((node * 7 + edge * edge * 5) % num_nodes);
    }
    if (node % 5 == 1) lists[static_cast<size_t>(node)].push_back(node);
    lists.back().push_back(node);
  }
  return testing::make_block(lists, num_nodes, at::kInt);
}

using Models = std::vector<std::shared_ptr<nn::NodeModel>>;

/// Models whose layers widen, keep their width, and narrow, in float64.
inline Models make_models() {
  torch::manual_seed(5);
  Models models;
  for (const int64_t hidden : {4, 8}) {
    models.push_back(std::make_shared<nn::GraphSageImpl>(nn::GraphSageOptions{
        .in_channels = kInChannels,
        .hidden_channels = hidden,
        .out_channels = kOutChannels,
        .layers = 3
    }));
    models.push_back(std::make_shared<nn::GcnImpl>(nn::GcnOptions{
        .in_channels = kInChannels,
        .hidden_channels = hidden,
        .out_channels = kOutChannels,
        .layers = 3
    }));
  }
  models.push_back(std::make_shared<nn::GraphSageImpl>(nn::GraphSageOptions{
      .in_channels = kInChannels,
      .out_channels = kOutChannels,
      .layers = 1,
      .parameters = nn::SageParameters::Pyg
  }));
  for (const auto& model : models) {
    model->to(torch::kFloat64);
    model->eval();
  }
  return models;
}

struct GraphAndBlock {
  explicit GraphAndBlock(int64_t num_nodes, at::ScalarType features = at::kDouble)
      : block(small_graph(num_nodes)),
        whole{
            .graph = graph::CscGraph::create(block.indptr, block.indices, num_nodes).value(),
            .features = torch::randn({num_nodes, kInChannels}).to(features),
            .labels = {}
        } {}

  at::Tensor forward(nn::NodeModel& model) const {
    const std::vector<graph::Block> blocks(static_cast<size_t>(model.num_layers()), block);
    return model.forward(whole.features.to(at::kDouble), blocks);
  }

  graph::Block block;
  WholeGraph whole;
};

/// Chunks of a few edges; the last node has more than any.
inline LayerWiseOptions small_chunks() {
  return {.chunk = {.nodes = 5, .edges = 7}};
}

/// Asks to stop at the `last`th mark.
class StopAtMark final : public CountingSink {
 public:
  StopAtMark(StopToken& stop, int64_t last) : stop_(stop), last_(last) {}
  void on_mark() override {
    CountingSink::on_mark();
    if (marks == last_) stop_.request();
  }

 private:
  StopToken& stop_;
  int64_t last_;
};

}  // namespace gnn::training
