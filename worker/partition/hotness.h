#pragma once

#include "common/thread_pool.h"
#include "worker/data/partitions.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace gnn::partition {

using Indices = std::variant<std::span<const int32_t>, std::span<const int64_t>>;

/// The in-neighbour lists of all nodes of one edge type.
struct HotnessEdges {
  size_t source = 0;                ///< node type of the neighbours
  size_t destination = 0;           ///< node type of the nodes that have the lists
  std::span<const int64_t> indptr;  ///< [nodes of `destination` + 1]
  Indices indices;                  ///< [E]: nodes of `source`
  std::span<const int64_t> fanout;  ///< by hop, the one next to the seeds first; -1 all, 0 none
};

/// What batches are drawn from, and how.
struct HotnessInput {
  std::vector<int64_t> num_nodes;  ///< by node type
  std::vector<HotnessEdges> edges;
  bool replace = false;
  data::HopRule rule = data::HopRule::NewNodes;
};

/// Bytes of memory that hotness() takes, its result included.
int64_t hotness_bytes(const std::vector<int64_t>& num_nodes);

/// The probability that a batch reads a node's row, for each node. With p_0 that of being a seed, and
/// e_h the probability that hop h samples neighbours for a node u, a neighbour of u is drawn with
/// t_u = min(1, f_h / deg u), or 1 - (1 - 1/deg u)^f_h with replacement, and
///
///     log(1 - p_{h+1}(v)) = sum over u whose list holds v of log(1 - t_u e_h(u)).
///
/// By the rule NewNodes, e_h = p_h prod_{j<h} (1 - p_j); by AllSeen, e_h = 1 - prod_{j<=h} (1 - p_j).
/// The result is 1 - prod_h (1 - p_h): exact where one path leads to each node, else an estimate that
/// takes draws for independent.
///
/// Shapes: seeds[t] float64 [num_nodes[t]], or empty if no seed is of type t; the result float64
/// [num_nodes[t]]. Lists must hold ids in range.
/// Threads: uses those of `others` beside the calling one; the result has the same bits for any number.
/// Source: Kaler et al. 2023 (SALIENT++), section 4; e_h and lists of directed graphs are ours.
std::vector<std::vector<double>> hotness(
    const HotnessInput& input, std::vector<std::vector<double>> seeds, ThreadPool& others
);

}  // namespace gnn::partition
