#pragma once

#include "common/result.h"
#include "worker/data/partitions.h"
#include "worker/sampling/core/excluded_pairs.h"
#include "worker/sampling/core/neighbor_kernel.h"
#include "worker/sampling/neighbor.h"
#include "worker/sampling/subgraph.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gnn::sampling {

// What samplers have in common, whether they draw themselves or others do.

/// Errors: Configuration for fan-outs, Data for two relations of one lane, or one out of range.
[[nodiscard]] Status check_options(
    const NeighborSamplerOptions& options, const std::vector<core::RelationView>& relations
);

/// A relation's arrays; `place` is its lane unless it has one of its own.
[[nodiscard]] core::RelationView view_of(const Relation& relation, size_t place);

/// Checks where the visible parts of neighbour lists end, unless `ends` is undefined: all is visible then.
/// Looks at `lists` alone; `where` stands before messages.
/// Shapes: indptr int64 [L + 1], as a graph's; ends int64 [L], contiguous, on the CPU: TORCH_CHECK
/// otherwise.
/// Errors: Data for another number of ends, or the first one that lies outside of its list.
[[nodiscard]] Status check_ends(
    const at::Tensor& indptr,
    const at::Tensor& ends,
    const data::IdRange& lists,
    const std::string& where
);

/// Errors: Data if relations disagree on the number of nodes of a type, or an end lies outside its list.
[[nodiscard]] Status check_relations(
    const std::vector<int64_t>& num_nodes, const std::vector<Relation>& relations
);

[[nodiscard]] core::KernelOptions kernel_options(const NeighborSamplerOptions& options);

/// The seeds of each node type.
/// Shapes: int64 [S], contiguous, on the CPU, or undefined; TORCH_CHECK otherwise.
/// Errors: Data naming the first seed that is not in the graph.
[[nodiscard]] Result<std::vector<std::span<const int64_t>>> checked_seeds(
    const std::vector<at::Tensor>& seeds, const std::vector<int64_t>& num_nodes
);

/// The edges that a batch must not have, by relation.
class BatchExclusions {
 public:
  /// TORCH_CHECK if a relation is none of `num_relations`, or a tensor has another form.
  BatchExclusions(const std::vector<ExcludedEdges>& excluded, size_t num_relations);

  /// As core::NeighborKernel::sample() takes them.
  [[nodiscard]] std::span<const core::ExcludedPairs* const> by_relation() const {
    return pointers_;
  }

 private:
  std::vector<core::ExcludedPairs> pairs_;
  std::vector<const core::ExcludedPairs*> pointers_;
};

/// The numbers of a sampled batch, and its arrays as tensors, wherever they lie.
struct BatchArrays {
  struct Nodes {
    at::Tensor ids;
    std::vector<int64_t> up_to;
  };
  struct Edges {
    at::Tensor indptr;
    at::Tensor indices;
    at::Tensor edge_ids;  ///< undefined unless requested
    std::vector<int64_t> up_to;
    std::vector<int64_t> indptr_at;
  };
  std::vector<Nodes> nodes;  ///< per node type
  std::vector<Edges> edges;  ///< per relation
};

/// `Batch`: core::SampleArena, or what has members of the same names; `tensor_of(array, count)` makes a
/// tensor of the first elements of one of its arrays.
template <class Batch, class TensorOf>
[[nodiscard]] BatchArrays arrays_of(
    const Batch& batch,
    const NeighborSamplerOptions& options,
    const std::vector<core::RelationView>& relations,
    const TensorOf& tensor_of
) {
  const size_t last = options.fanout.size() - 1;
  BatchArrays arrays;
  for (const auto& nodes : batch.nodes)
    arrays.nodes.push_back({tensor_of(nodes.ids, nodes.up_to.back()), nodes.up_to});
  for (size_t i = 0; i < batch.edges.size(); ++i) {
    const auto& edges = batch.edges[i];
    const auto& known = batch.nodes[static_cast<size_t>(relations[i].destination_type)].up_to;
    const int64_t count = edges.up_to.back();
    arrays.edges.push_back(
        {.indptr = tensor_of(edges.indptr, edges.indptr_at[last] + known[last] + 1),
         .indices = tensor_of(edges.indices, count),
         .edge_ids = options.with_edge_ids ? tensor_of(edges.edge_ids, count) : at::Tensor(),
         .up_to = edges.up_to,
         .indptr_at = edges.indptr_at}
    );
  }
  return arrays;
}

/// The subgraph in a batch's arrays, of which its tensors are parts.
[[nodiscard]] SampledSubgraph subgraph_in(
    const BatchArrays& arrays,
    const NeighborSamplerOptions& options,
    const std::vector<core::RelationView>& relations
);

/// The subgraph in an arena. Its tensors keep the arena alive.
[[nodiscard]] SampledSubgraph subgraph_over(
    const std::shared_ptr<core::SampleArena>& arena,
    const NeighborSamplerOptions& options,
    const std::vector<core::RelationView>& relations
);

}  // namespace gnn::sampling
