#include "worker/partition/seeds.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace gnn::partition {
namespace {

// The node tables of the links' ends.
struct LinkEnds {
  size_t source;
  size_t destination;
};
LinkEnds link_ends(const data::DatasetArrays& dataset) {
  const data::EdgeTable& table = dataset.edge_tables[dataset.links->edge_table];
  return {node_table_index(dataset, table.source), node_table_index(dataset, table.destination)};
}

// The probability that at least one of `mine` of `total` items is among `drawn` of them.
double any_drawn(double mine, int64_t total, double drawn) {
  if (mine <= 0 || total == 0) {
    return 0;
  }
  const double share = std::min(1.0, drawn / static_cast<double>(total));
  return mine > 1 ? -std::expm1(mine * std::log1p(-share)) : share;
}

// To the probabilities that nodes are seeds, that of being an end of one of `draws` negatives.
void add_negatives(std::vector<double>& seeds, std::span<const double> weights, double draws) {
  const double sum = weights.empty() ? static_cast<double>(seeds.size())
                                     : std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t node = 0; node < seeds.size(); ++node) {
    const double share = (weights.empty() ? 1 : weights[node]) / sum;
    seeds[node] = 1 - (1 - seeds[node]) * std::pow(1 - share, draws);
  }
}

}  // namespace

size_t node_table_index(const data::DatasetArrays& dataset, const std::string& name) {
  const data::NodeTable* table = data::find_node_table(dataset, name);
  GNN_ASSERT(table != nullptr, "a checked data set has the node types that it names");
  return static_cast<size_t>(table - dataset.node_tables.data());
}

Seeds seeds_of(const data::DatasetArrays& dataset) {
  Seeds seeds;
  seeds.table = dataset.links ? link_ends(dataset).destination
                              : node_table_index(dataset, dataset.target_node_type);
  const auto nodes = static_cast<size_t>(dataset.node_tables[seeds.table].num_nodes);
  if (dataset.links) {
    seeds.items.resize(nodes);
    const auto pairs = dataset.links->pairs.view<int64_t>();
    for (size_t end = 1; end < pairs.size(); end += 2) {
      ++seeds.items[static_cast<size_t>(pairs[end])];
    }
  } else if (dataset.train.defined() && dataset.train.num_elements() > 0) {
    seeds.items.resize(nodes);
    for (const int64_t id : dataset.train.view<int64_t>()) {
      seeds.items[static_cast<size_t>(id)] = 1;
    }
  } else {
    seeds.items.assign(nodes, 1);
  }
  seeds.total = std::accumulate(seeds.items.begin(), seeds.items.end(), int64_t{0});
  return seeds;
}

HotnessInput hotness_input(const data::DatasetArrays& dataset, const data::BatchDraws& draws) {
  HotnessInput input{.num_nodes = {}, .edges = {}, .replace = draws.replace, .rule = draws.rule};
  for (const data::NodeTable& table : dataset.node_tables) {
    input.num_nodes.push_back(table.num_nodes);
  }
  for (size_t i = 0; i < dataset.edge_tables.size(); ++i) {
    const data::EdgeTable& table = dataset.edge_tables[i];
    HotnessEdges edges{
        .source = node_table_index(dataset, table.source),
        .destination = node_table_index(dataset, table.destination),
        .indptr = table.indptr.view<int64_t>(),
        .indices = {},
        .fanout = draws.fanouts[i]
    };
    if (table.indices.dtype() == data::DType::Int32) {
      edges.indices = table.indices.view<int32_t>();
    } else {
      edges.indices = table.indices.view<int64_t>();
    }
    input.edges.push_back(edges);
  }
  return input;
}

std::vector<double> node_seed_probabilities(
    std::span<const int64_t> items, int64_t num_nodes, int64_t batch_size
) {
  std::vector<double> seeds(static_cast<size_t>(num_nodes));
  const double seed =
      any_drawn(1, static_cast<int64_t>(items.size()), static_cast<double>(batch_size));
  for (const int64_t item : items) seeds[static_cast<size_t>(item)] = seed;
  return seeds;
}

std::vector<std::vector<double>> link_seed_probabilities(
    const std::vector<int64_t>& num_nodes, const PartLinks& links, const data::BatchDraws& draws
) {
  // At first the number of links at each node. Both ends of a link may be of one type.
  std::vector<std::vector<double>> seeds(num_nodes.size());
  for (const size_t type : {links.source, links.destination}) {
    seeds[type].resize(static_cast<size_t>(num_nodes[type]));
  }
  int64_t total = 0;
  for (size_t end = 0; end + 1 < links.pairs.size(); end += 2) {
    const int64_t destination = links.pairs[end + 1];
    if (links.is_owned(destination)) {
      ++total;
      seeds[links.source][static_cast<size_t>(links.pairs[end])] += 1;
      seeds[links.destination][static_cast<size_t>(destination)] += 1;
    }
  }
  const auto batch = static_cast<double>(std::min(draws.batch_size, total));
  const double negatives = std::ceil(batch * draws.negatives);
  for (std::vector<double>& type : seeds) {
    for (double& node : type) node = any_drawn(node, total, batch);
  }
  add_negatives(seeds[links.source], links.negative_weights[0], negatives);
  add_negatives(seeds[links.destination], links.negative_weights[1], negatives);
  return seeds;
}

std::vector<std::vector<double>> seed_probabilities(
    const data::DatasetArrays& dataset,
    const data::BatchDraws& draws,
    const Seeds& seeds,
    const Assignment& assignment,
    int64_t part
) {
  const std::vector<uint16_t>& parts = assignment[seeds.table];
  const auto is_owned = [&](int64_t node) {
    return parts[static_cast<size_t>(node)] == static_cast<uint16_t>(part);
  };
  if (dataset.links) {
    std::vector<int64_t> num_nodes;
    for (const data::NodeTable& table : dataset.node_tables) num_nodes.push_back(table.num_nodes);
    const LinkEnds ends = link_ends(dataset);
    const PartLinks links{
        .pairs = dataset.links->pairs.view<int64_t>(),
        .source = ends.source,
        .destination = ends.destination,
        .is_owned = is_owned
    };
    return link_seed_probabilities(num_nodes, links, draws);
  }
  std::vector<int64_t> items;
  for (int64_t node = 0; node < static_cast<int64_t>(parts.size()); ++node) {
    if (seeds.items[static_cast<size_t>(node)] > 0 && is_owned(node)) items.push_back(node);
  }
  std::vector<std::vector<double>> result(dataset.node_tables.size());
  result[seeds.table] =
      node_seed_probabilities(items, static_cast<int64_t>(parts.size()), draws.batch_size);
  return result;
}

}  // namespace gnn::partition
