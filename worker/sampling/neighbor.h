#pragma once

#include "common/result.h"
#include "worker/graph/csc_graph.h"
#include "worker/sampling/core/neighbor_kernel.h"
#include "worker/sampling/core/rng.h"
#include "worker/sampling/core/sampling_rule.h"
#include "worker/sampling/subgraph.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace gnn::sampling {

using core::SamplingRule;

struct NeighborSamplerOptions {
  /// Neighbours per node in each hop, index 0 next to the seeds as in PyG (DGL lists the outermost
  /// first); -1 takes all, 0 none.
  std::vector<int64_t> fanout;
  /// Draws with replacement: `fanout` draws for every node that has an in-edge.
  bool replace = false;
  SamplingRule rule = SamplingRule::NewNodes;
  bool with_edge_ids = false;
  /// 0: the result's lists by edge type are in the order of the relations; else there are this many,
  /// by lane, and those of edge types that are not sampled hold empty blocks (undefined tensors).
  int64_t num_edge_types = 0;
  /// Per sampling thread; see core::KernelOptions.
  int64_t sampler_memory_bytes = core::kSamplerMemoryBytes;
};

/// One edge type of a typed graph. A sampler need not have all of them: what the others draw does
/// not depend on it.
struct Relation {
  graph::CscGraph graph;
  int64_t source_type = 0;
  int64_t destination_type = 0;
  /// int64 [num_destinations], contiguous, on the CPU: the absolute end of the visible part of each
  /// neighbour list, as graph::PartOrder gives it. Undefined: all of every list is visible.
  at::Tensor ends = {};
  /// The edge type's number in the data set, which keys the draws; -1: its place in the list.
  int64_t lane = -1;
  /// Instead of NeighborSamplerOptions::fanout, with as many hops; empty: that one.
  std::vector<int64_t> fanout = {};
};

/// Pairs of global ids that a batch must not use as edges of one relation.
struct ExcludedEdges {
  int64_t relation = 0;     ///< place in the sampler's list
  at::Tensor sources;       ///< int64 [X], contiguous, on the CPU
  at::Tensor destinations;  ///< int64 [X], likewise
};

/// Uniform neighbour sampling with relabelling. The result is a function of the options and of
/// (seed, epoch, batch, seeds): each draw is keyed by those, the rule, edge type, hop and node, so
/// that the number of threads does not matter. Without replacement, every subset of a neighbour
/// list is equally likely; lists no longer than the fan-out are taken whole and in order. In a
/// typed graph each hop samples every relation for the destinations that the rule selects.
/// If a model reads only some of the relations, a sampler without the others gives it the same
/// values: of a node that is expanded in the same hop the neighbours are the same, bit for bit. By
/// AllSeen that holds at any depth, by NewNodes for two hops; beyond them, a node that only an
/// unread relation had brought in earlier is expanded in another hop, and so drawn anew.
/// Threads: sample() may run on any number of threads at once; each call has its own state.
class NeighborSampler {
 public:
  /// Errors: Configuration for an empty fan-out or one below -1; Data if relations disagree on the
  /// number of nodes of a type, or have one lane, or an end lies outside its list.
  [[nodiscard]] static Result<NeighborSampler> create(
      NeighborSamplerOptions options, const graph::CscGraph& graph
  );
  /// `num_nodes` per node type.
  [[nodiscard]] static Result<NeighborSampler> create(
      NeighborSamplerOptions options,
      std::vector<int64_t> num_nodes,
      std::vector<Relation> relations
  );

  /// Samples around `seeds`. A seed given twice keeps two rows; edges refer to the first. The
  /// tensors of the result share one arena that is reused once all are gone: hold them only as long
  /// as the batch is in use.
  /// Shapes: seeds int64 [S], contiguous, on the CPU; the blocks' indices are int32.
  /// Errors: Data naming the first seed that is not in the graph.
  [[nodiscard]] Result<SampledSubgraph> sample(
      const at::Tensor& seeds, const core::StreamPosition& position
  ) const;
  /// As above for a typed graph: seeds per node type, undefined for a type without any. Drawn edges
  /// that are `excluded` are left out, all parallel ones of a pair and in every hop, and nothing is
  /// drawn instead (as DGL's exclude_seed_edges); other edges keep their bits.
  [[nodiscard]] Result<SampledSubgraph> sample(
      const std::vector<at::Tensor>& seeds,
      const core::StreamPosition& position,
      const std::vector<ExcludedEdges>& excluded = {}
  ) const;

  [[nodiscard]] const NeighborSamplerOptions& options() const;
  /// The largest state of any thread that has sampled so far, in bytes, without the batches'
  /// tensors.
  [[nodiscard]] int64_t state_bytes_per_thread() const;

 private:
  class Impl;
  explicit NeighborSampler(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<Impl> impl_;
};

}  // namespace gnn::sampling
