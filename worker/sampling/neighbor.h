#pragma once

#include "common/result.h"
#include "worker/graph/csc_graph.h"
#include "worker/sampling/rng.h"
#include "worker/sampling/subgraph.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace gnn::sampling {

/// Which nodes a hop expands.
enum class HopRule {
  NewNodes,  ///< PyG: the nodes new in the hop before. Every node is sampled once; all layers
             ///< share its edges, so a layer nearer to the seeds uses a prefix of the next one's
             ///< edges (trim_to_layer).
  AllSeen,   ///< DGL: all nodes seen so far, with fresh draws in each hop. Every layer has edges of
             ///< its own.
};

struct NeighborSamplerOptions {
  std::vector<int64_t> fanout;  ///< Per hop, index 0 next to the seeds (PyG's order; DGL lists it
                                ///< reversed); -1 takes all, 0 none.
  bool replace = false;  ///< With replacement: `fanout` draws wherever there is an in-edge at all.
  HopRule rule = HopRule::NewNodes;
  bool with_edge_ids = false;
  int64_t state_budget_bytes = int64_t{200}
                               << 20;  ///< Per thread; above it ids are mapped by hashing.
};

/// One edge type of a typed graph.
struct Relation {
  graph::CscGraph graph;  ///< Rows: nodes of target_type; indices: nodes of source_type.
  int64_t source_type = 0;
  int64_t target_type = 0;
};

/// Uniform neighbour sampling with relabelling. Draws are keyed by (seed, epoch, batch, rule, edge
/// type, hop, node): the result depends on nothing else, in particular not on the number of
/// threads. Without replacement every subset of a neighbour list is equally likely; lists no longer
/// than the fan-out are taken whole and in order. In a typed graph each hop samples every relation
/// into the nodes its type's rule names. Threads: sample() may be called from any number at once;
/// each call in progress has its own state.
class NeighborSampler {
 public:
  /// Errors: Configuration for an empty fan-out or one below -1; Data when relations disagree on
  /// a type's number of nodes.
  [[nodiscard]] static Result<NeighborSampler> create(
      NeighborSamplerOptions options, const graph::CscGraph& graph
  );
  /// `num_nodes` per node type.
  [[nodiscard]] static Result<NeighborSampler> create(
      NeighborSamplerOptions options,
      std::vector<int64_t> num_nodes,
      std::vector<Relation> relations
  );

  /// Samples around `seeds` (int64 [S], CPU, contiguous). A seed given twice keeps two rows; edges
  /// refer to the first. The tensors of the result share one recycled arena: hold the result only
  /// as long as the batch is used. Shapes: Block indices are int32. Errors: Data naming the first
  /// seed outside the graph.
  [[nodiscard]] Result<SampledSubgraph> sample(
      const at::Tensor& seeds, const StreamPosition& position
  ) const;
  /// The same for a typed graph: seeds per node type, undefined where a type has none.
  [[nodiscard]] Result<SampledSubgraph> sample(
      const std::vector<at::Tensor>& seeds, const StreamPosition& position
  ) const;

  [[nodiscard]] const NeighborSamplerOptions& options() const;
  /// Bytes of sampler state of each thread that has sampled so far (the batches' tensors not
  /// counted); the largest.
  [[nodiscard]] int64_t state_bytes_per_thread() const;

 private:
  class Impl;
  explicit NeighborSampler(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<Impl> impl_;
};

}  // namespace gnn::sampling
