#pragma once

#include "tests/worker/sampling/random_graph.h"
#include "tests/worker/shards/in_process_peer.h"
#include "worker/graph/dataset.h"
#include "worker/sampling/neighbor.h"
#include "worker/shards/part.h"
#include "worker/shards/part_sampler.h"
#include "worker/shards/remote_sampler.h"
#include "worker/shards/service.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::shards {

/// The part of a data set alone.
inline graph::Dataset extracted(const graph::Dataset& whole, int64_t part) {
  graph::Dataset alone = whole;
  alone.partitions->only = part;
  for (size_t i = 0; i < alone.node_types.size(); ++i) {
    const data::IdRange own = whole.partitions->book.range_of(i, part);
    graph::NodeTypeData& type = alone.node_types[i];
    if (type.features) {
      type.features =
          graph::FeatureStore::create(type.features->rows().narrow(0, own.begin, own.size()).clone()
          )
              .value();
    }
    if (type.labels.defined()) type.labels = type.labels.narrow(0, own.begin, own.size()).clone();
  }
  for (graph::EdgeTypeData& type : alone.edge_types) {
    const data::IdRange own =
        whole.partitions->book.range_of(static_cast<size_t>(type.destination_index), part);
    const at::Tensor indptr = type.graph.indptr().narrow(0, own.begin, own.size() + 1);
    const int64_t begin = indptr[0].item<int64_t>();
    const int64_t size = indptr[own.size()].item<int64_t>() - begin;
    type.graph = graph::CscGraph::create(
                     indptr - begin,
                     type.graph.indices().narrow(0, begin, size).clone(),
                     type.graph.num_sources(),
                     type.graph.edge_ids().narrow(0, begin, size).clone()
    )
                     .value();
  }
  return alone;
}

/// A data set of two node types, users and items, whose parts differ in size.
class Shop {
 public:
  static constexpr int64_t kUsers = 700;
  static constexpr int64_t kItems = 300;

  explicit Shop(int64_t parts) {
    dataset_.name = "shop";
    dataset_.node_types = {type_of("user", kUsers), type_of("item", kItems)};
    dataset_.edge_types.push_back(edges_of({0, 1}, 1));
    dataset_.edge_types.push_back(edges_of({1, 0}, 2));
    dataset_.edge_types.push_back(edges_of({1, 1}, 3));
    graph::PartitionData partitions;
    partitions.book.parts = parts;
    partitions.book.offsets = {cuts(kUsers, parts), cuts(kItems, parts)};
    partitions.original_ids.resize(2);
    partitions.hot.assign(2, std::vector<graph::HotRowsData>(static_cast<size_t>(parts)));
    dataset_.partitions = std::move(partitions);
    for (int64_t part = 0; part < parts; ++part) {
      for (size_t type = 0; type < 2; ++type)
        dataset_.partitions->hot[type][static_cast<size_t>(part)] = hot_rows_of(type, part);
    }
  }

  [[nodiscard]] const graph::Dataset& whole() const { return dataset_; }

  /// A data set with one part alone.
  [[nodiscard]] graph::Dataset extract(int64_t part) const { return extracted(dataset_, part); }

 private:
  static graph::NodeTypeData type_of(const std::string& name, int64_t nodes) {
    return {
        .name = name,
        .num_nodes = nodes,
        .features =
            graph::FeatureStore::create((at::arange(nodes * 5, at::kFloat) / 7).reshape({nodes, 5}))
                .value(),
        .labels = at::arange(nodes, at::kLong) * 3
    };
  }

  struct Ends {
    size_t source = 0;
    size_t destination = 0;
  };

  [[nodiscard]] graph::EdgeTypeData edges_of(const Ends& ends, uint64_t seed) const {
    const graph::NodeTypeData& source = dataset_.node_types[ends.source];
    const graph::NodeTypeData& destination = dataset_.node_types[ends.destination];
    const sampling::RandomGraph edges(destination.num_nodes, source.num_nodes, 6, seed);
    const auto count = static_cast<int64_t>(edges.indices.size());
    return {
        .source = source.name,
        .relation = "to",
        .destination = destination.name,
        .source_index = static_cast<int64_t>(ends.source),
        .destination_index = static_cast<int64_t>(ends.destination),
        .graph = graph::CscGraph::create(
                     at::tensor(edges.indptr, at::kLong),
                     at::tensor(edges.indices, at::kLong).to(seed == 2 ? at::kInt : at::kLong),
                     source.num_nodes,
                     at::arange(count, at::kLong) * 11 % 100'003
        )
                     .value(),
        .features = std::nullopt
    };
  }

  // All nodes of other parts, those of the lowest ids first.
  [[nodiscard]] graph::HotRowsData hot_rows_of(size_t type, int64_t part) const {
    const data::IdRange own = dataset_.partitions->book.range_of(type, part);
    const at::Tensor ids = at::cat(
        {at::arange(own.begin, at::kLong),
         at::arange(own.end, dataset_.node_types[type].num_nodes, at::kLong)}
    );
    return {.ids = ids, .hotness = at::ones(ids.sizes(), at::kDouble)};
  }

  // Part p has about p + 1 shares, and the second of four has nothing.
  static std::vector<int64_t> cuts(int64_t nodes, int64_t parts) {
    std::vector<int64_t> offsets{0};
    const int64_t shares = parts * (parts + 1) / 2;
    for (int64_t part = 1; part <= parts; ++part)
      offsets.push_back(nodes * (part * (part + 1) / 2) / shares);
    if (parts == 4) offsets[2] = offsets[1];
    return offsets;
  }

  graph::Dataset dataset_;
};

/// What a sampler reads of the edge types of a data set.
struct ShopSampling {
  sampling::NeighborSamplerOptions options;
  std::vector<std::vector<int64_t>> fanouts{{}, {}, {}};  ///< by edge type; empty: the options'
  bool with_ends = false;  ///< every other edge at the end of each list is hidden
};

inline at::Tensor ends_of_lists(const at::Tensor& indptr) {
  const at::Tensor begin = indptr.narrow(0, 0, indptr.numel() - 1);
  return (begin + (indptr.narrow(0, 1, indptr.numel() - 1) - begin + 1) / 2).to(at::kLong);
}

inline sampling::NeighborSampler local_sampler(
    const graph::Dataset& dataset, const ShopSampling& sampling
) {
  std::vector<int64_t> nodes;
  for (const graph::NodeTypeData& type : dataset.node_types) nodes.push_back(type.num_nodes);
  std::vector<sampling::Relation> relations;
  for (size_t i = 0; i < dataset.edge_types.size(); ++i) {
    const graph::EdgeTypeData& type = dataset.edge_types[i];
    relations.push_back(
        {.graph = type.graph,
         .source_type = type.source_index,
         .destination_type = type.destination_index,
         .ends = sampling.with_ends ? ends_of_lists(type.graph.indptr()) : at::Tensor(),
         .fanout = sampling.fanouts[i]}
    );
  }
  return sampling::NeighborSampler::create(sampling.options, nodes, relations).value();
}

/// The nodes of a job in one process: each has a part and asks the others.
class Job {
 public:
  Job(const Shop& shop,
      const ShopSampling& sampling,
      bool extracted,
      int64_t most_reply_bytes = kMostReplyBytes) {
    const int64_t parts = shop.whole().partitions->book.parts;
    for (int64_t part = 0; part < parts; ++part) {
      const graph::Dataset dataset = extracted ? shop.extract(part) : shop.whole();
      parts_.push_back(Part::create(dataset, {.part = part}).value());
      specs_.push_back(spec_of(dataset, *parts_.back(), sampling));
      own_.push_back(PartSampler::create(parts_.back(), specs_.back()).value());
      services_.push_back(std::make_shared<Service>(
          parts_.back(), std::vector<std::shared_ptr<PartSampler>>{own_.back()}, most_reply_bytes
      ));
      peers_.push_back(std::make_shared<InProcessPeer>(services_.back(), part));
    }
  }

  ~Job() {
    for (const auto& peer : peers_) peer->close();
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  [[nodiscard]] Peers peers_of(int64_t part) const {
    Peers peers(peers_.begin(), peers_.end());
    peers[static_cast<size_t>(part)] = nullptr;
    return peers;
  }
  /// `hops` as RemoteSampler::create() takes it.
  [[nodiscard]] std::shared_ptr<RemoteSampler> sampler(
      int64_t part, std::shared_ptr<const sampling::HopBatches> hops = nullptr
  ) const {
    return RemoteSampler::create(
               0, own_[static_cast<size_t>(part)], peers_of(part), nullptr, std::move(hops)
    )
        .value();
  }
  [[nodiscard]] const PartSampler& own(int64_t part) const {
    return *own_[static_cast<size_t>(part)];
  }
  [[nodiscard]] const std::shared_ptr<const Part>& part(int64_t part) const {
    return parts_[static_cast<size_t>(part)];
  }
  [[nodiscard]] const SamplerSpec& spec(int64_t part) const {
    return specs_[static_cast<size_t>(part)];
  }
  [[nodiscard]] InProcessPeer& peer(int64_t part) const {
    return *peers_[static_cast<size_t>(part)];
  }
  [[nodiscard]] Service& service(int64_t part) const {
    return *services_[static_cast<size_t>(part)];
  }
  [[nodiscard]] const std::shared_ptr<Service>& shared_service(int64_t part) const {
    return services_[static_cast<size_t>(part)];
  }
  [[nodiscard]] int64_t payload_bytes() const {
    int64_t bytes = 0;
    for (const auto& peer : peers_) bytes += peer->payload_bytes();
    return bytes;
  }

 private:
  static SamplerSpec spec_of(
      const graph::Dataset& dataset, const Part& part, const ShopSampling& sampling
  ) {
    SamplerSpec spec{.options = sampling.options, .relations = {}};
    for (size_t i = 0; i < dataset.edge_types.size(); ++i) {
      const graph::EdgeTypeData& type = dataset.edge_types[i];
      const PartLists& lists = part.lists(static_cast<int64_t>(i));
      spec.relations.push_back(
          {.lists = lists,
           .source_type = type.source_index,
           .destination_type = type.destination_index,
           .ends = sampling.with_ends ? ends_of_lists(lists.indptr) : at::Tensor(),
           .fanout = sampling.fanouts[i]}
      );
    }
    return spec;
  }

  std::vector<std::shared_ptr<const Part>> parts_;
  std::vector<SamplerSpec> specs_;
  std::vector<std::shared_ptr<PartSampler>> own_;
  std::vector<std::shared_ptr<Service>> services_;
  std::vector<std::shared_ptr<InProcessPeer>> peers_;
};

}  // namespace gnn::shards
