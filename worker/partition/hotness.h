#pragma once

#include "common/result.h"
#include "common/thread_pool.h"
#include "worker/data/partitions.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <variant>
#include <vector>

namespace gnn::partition {

using Indices = std::variant<std::span<const int32_t>, std::span<const int64_t>>;

/// The in-neighbour lists of one edge type.
struct HotnessEdges {
  size_t source = 0;       ///< node type of the neighbours
  size_t destination = 0;  ///< node type of the nodes that have the lists
  /// [lists + 1]: positions in `indices`, of which the first need not be 0.
  std::span<const int64_t> indptr;
  Indices indices;                  ///< [E]: nodes of `source`
  std::span<const int64_t> fanout;  ///< by hop, the one next to the seeds first; -1 all, 0 none
  int64_t first = 0;                ///< the node of the first list
  /// [lists]: where the part of each list that batches are drawn from ends; empty: with the list.
  std::span<const int64_t> ends{};
};

/// What batches are drawn from, and how.
struct HotnessInput {
  std::vector<int64_t> num_nodes;  ///< by node type
  std::vector<HotnessEdges> edges;
  bool replace = false;
  data::HopRule rule = data::HopRule::NewNodes;
};

/// Makes `values`, which have one element for each node of a type, the sum of those of all that call it
/// together.
using SumOverLists = std::function<Status(std::span<double> values)>;

/// Bytes of memory that hotness() takes, its result included.
int64_t hotness_bytes(const HotnessInput& input);

/// The probability that a batch reads a node's row, for each node. With p_0 that of being a seed, and
/// e_h the probability that hop h samples neighbours for a node u, a neighbour of u is drawn with
/// t_u = min(1, f_h / deg u), or 1 - (1 - 1/deg u)^f_h with replacement, and
///
///     log(1 - p_{h+1}(v)) = sum over u whose list holds v of log(1 - t_u e_h(u)).
///
/// By the rule NewNodes, e_h = p_h prod_{j<h} (1 - p_j). By AllSeen, a node that hop h samples for was
/// sampled for by the hops since it came in, so that a neighbour's chances are no independent ones: with
/// m_h(u) the probability that u has drawn a given neighbour before hop h, e_h = (s_h - m_h) / (1 - m_h),
/// where s_h = 1 - prod_{j<=h} (1 - p_j) is that of being sampled for, and m_{h+1} = m_h + t_u (s_h - m_h).
/// The result is 1 - prod_h (1 - p_h): exact where one path leads to each node, else an estimate that
/// takes the draws of different nodes for independent.
///
/// Shapes: seeds[t] float64 [num_nodes[t]], or empty if no seed is of type t; the result float64
/// [num_nodes[t]]. Lists must hold ids in range.
/// Threads: uses those of `others` beside the calling one; the result has the same bits for any number.
/// Source: Kaler et al. 2023 (SALIENT++), section 4; e_h and lists of directed graphs are ours.
std::vector<std::vector<double>> hotness(
    const HotnessInput& input, std::vector<std::vector<double>> seeds, ThreadPool& others
);

/// The same where each of several callers has some of the lists, and none has a list that another has:
/// all have its result. `sum` is called once a hop and node type by each, in the same order.
/// Errors: those of `sum`.
Result<std::vector<std::vector<double>>> hotness_together(
    const HotnessInput& input,
    std::vector<std::vector<double>> seeds,
    ThreadPool& others,
    const SumOverLists& sum
);

}  // namespace gnn::partition
