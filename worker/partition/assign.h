#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "common/thread_pool.h"
#include "worker/data/array.h"
#include "worker/data/dataset_arrays.h"
#include "worker/partition/seeds.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace gnn::partition {

/// How nodes are dealt to parts.
enum class Method { Random, Hotness, Ldg, Metis };

/// "random", "hotness", "ldg" or "metis"
[[nodiscard]] std::string_view method_name(Method method);

/// What a method deals, and by what.
struct AssignInput {
  const data::DatasetArrays& dataset;
  const data::BatchDraws& draws;
  const Seeds& seeds;
  int64_t parts = 1;
  uint64_t seed = 0;
};

/// What a method uses on its way.
struct AssignTools {
  data::ArrayStorage& storage;  ///< for scratch memory
  ThreadPool& others;
  ProgressBar& progress;
};

/// How many of `count` nodes part `part` should have: equally many, the lowest parts one more.
inline int64_t fair_share(int64_t count, int64_t parts, int64_t part) {
  return count / parts + (part < count % parts ? 1 : 0);
}

/// Gives the nodes with items to parts, in a random order: each to the part with the fewest items that
/// has not its fair share of nodes yet. The others get kNoPart.
Assignment deal_seeds(const AssignInput& input);

/// Deals seeds as deal_seeds() does, and all other nodes at random, so that each part has its fair
/// share.
Assignment assign_random(const AssignInput& input);

/// Deals seeds as deal_seeds() does, and each other node by how hot it is for the part's batches:
/// nodes are taken in chunks, in the order of their ids, and of each chunk the parts in turn take their
/// share of those with the largest P h_p - sum of h_q over the others.
/// Source: FrequencyPartitioner of GraphLearn-for-PyTorch.
/// Errors: those of ArrayStorage::scratch().
Result<Assignment> assign_by_hotness(const AssignInput& input, const AssignTools& tools);

/// Deals nodes in the order of their ids to the part with the largest
/// (neighbours there) (1 - nodes there / capacity), several times over: each pass sees the parts that
/// the one before gave to nodes that it has not reached yet. Of seeds the smaller of the factors of
/// nodes and items counts. A type without lists is dealt by the nodes that read it: each to the part
/// that a majority vote of its readers names. Parts have at most 1 % more than their fair share, and one
/// node.
/// Source: Stanton and Kliot 2012 (linear deterministic greedy); Nishimura and Ugander 2013 (passes).
Assignment assign_ldg(const AssignInput& input, const AssignTools& tools);

/// Cuts few edges with METIS' multilevel k-way partitioning, over the nodes of all types at once, each
/// pair of neighbours being one edge that weighs the number of edges between them. Nodes of each type
/// and items are balanced to 3 %, as far as METIS finds a way. Runs in a child process, whose memory
/// may not exceed `memory_bytes`.
/// Errors: Configuration with the need if the graph has too many edges for METIS, or needs more memory
/// than that; those of run_in_child().
Result<Assignment> assign_by_metis(
    const AssignInput& input, const AssignTools& tools, int64_t memory_bytes
);

}  // namespace gnn::partition
