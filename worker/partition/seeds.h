#pragma once

#include "common/result.h"
#include "worker/data/dataset_arrays.h"
#include "worker/data/partitions.h"
#include "worker/partition/hotness.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace gnn::partition {

/// The part of each node, by node table; kNoPart for a node that has none yet.
using Assignment = std::vector<std::vector<uint16_t>>;
inline constexpr uint16_t kNoPart = 0xFFFF;

/// What batches start from, by the nodes whose owners train it: links belong to their destination's
/// owner, other items are nodes.
struct Seeds {
  size_t table = 0;             ///< node table of the owners
  std::vector<uint32_t> items;  ///< [num_nodes]: how many items each node has
  int64_t total = 0;            ///< sum of `items`
};

/// Links where the data set has some, else the nodes to train on, else all nodes of the target type.
Seeds seeds_of(const data::DatasetArrays& dataset);

/// The index of a data set's node table of that name, which it must have (GNN_ASSERT).
size_t node_table_index(const data::DatasetArrays& dataset, const std::string& name);

/// What the hotness of a data set's nodes is computed from; `draws` and the arrays must outlive it.
HotnessInput hotness_input(const data::DatasetArrays& dataset, const data::BatchDraws& draws);

/// Whether a hop draws edges of this type. Others count for nothing.
inline bool is_sampled(const HotnessEdges& edges) {
  return std::any_of(edges.fanout.begin(), edges.fanout.end(), [](int64_t f) { return f != 0; });
}

/// The probability that a node is a seed of a batch, which takes `batch_size` of `items` without
/// replacement.
/// Shapes: items are nodes in [0, num_nodes), each once; the result [num_nodes].
std::vector<double> node_seed_probabilities(
    std::span<const int64_t> items, int64_t num_nodes, int64_t batch_size
);

/// The links that one part trains.
struct PartLinks {
  std::span<const int64_t> pairs;  ///< of all parts' links: [E, 2], source and destination
  size_t source = 0;               ///< node type of the sources
  size_t destination = 0;          ///< node type of the destinations
  std::function<bool(int64_t destination)> is_owned{};
  /// By which the ends of negatives are drawn: [num_nodes], of the sources and of the destinations;
  /// empty: all nodes alike.
  std::array<std::span<const double>, 2> negative_weights{};
};

/// By node type the probability that a node is a seed of a batch of the part's links: both ends of
/// draws.batch_size links, which are taken without replacement, and draws.negatives pairs for each of
/// them.
/// Shapes: [num_nodes[t]], empty for types that are at no end.
std::vector<std::vector<double>> link_seed_probabilities(
    const std::vector<int64_t>& num_nodes, const PartLinks& links, const data::BatchDraws& draws
);

/// The same by node table for whatever seeds_of() has found. All nodes with items must have a part.
std::vector<std::vector<double>> seed_probabilities(
    const data::DatasetArrays& dataset,
    const data::BatchDraws& draws,
    const Seeds& seeds,
    const Assignment& assignment,
    int64_t part
);

}  // namespace gnn::partition
