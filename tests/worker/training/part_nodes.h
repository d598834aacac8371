#pragma once

#include "tests/worker/shards/in_process_peer.h"
#include "worker/graph/dataset.h"
#include "worker/shards/part.h"
#include "worker/shards/part_sampler.h"
#include "worker/shards/row_fetcher.h"
#include "worker/shards/service.h"
#include "worker/training/layer_wise.h"
#include "worker/training/part_layer_wise.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace gnn::training {

/// A graph whose nodes are dealt to parts of unequal sizes.
inline graph::Dataset dataset_of_parts(const WholeGraph& whole, int64_t parts) {
  const int64_t num_nodes = whole.graph.num_destinations();
  graph::Dataset dataset;
  dataset.name = "parts";
  dataset.node_types.push_back(
      {.name = "node",
       .num_nodes = num_nodes,
       .features = graph::FeatureStore::create(whole.features).value(),
       .labels = at::arange(num_nodes, at::kLong) % 3}
  );
  dataset.edge_types.push_back(
      {.source = "node",
       .relation = "to",
       .destination = "node",
       .graph = whole.graph,
       .features = std::nullopt}
  );
  graph::PartitionData partitions;
  partitions.book.parts = parts;
  partitions.book.offsets.push_back({0});
  for (int64_t part = 1; part <= parts; ++part)
    partitions.book.offsets[0].push_back(num_nodes * part * part / (parts * parts));
  partitions.original_ids.resize(1);
  partitions.hot.assign(1, std::vector<graph::HotRowsData>(static_cast<size_t>(parts)));
  dataset.partitions = std::move(partitions);
  return dataset;
}

/// Node n has part n mod P, and asks the first node that has another one.
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

  /// Of a rank of that node; one of them serves what the node has.
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

}  // namespace gnn::training
