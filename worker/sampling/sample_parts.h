#pragma once

#include "common/result.h"
#include "worker/sampling/core/excluded_pairs.h"
#include "worker/sampling/core/neighbor_kernel.h"
#include "worker/sampling/neighbor.h"
#include "worker/sampling/subgraph.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace gnn::sampling {

// What samplers have in common, whether they draw themselves or others do.

/// Errors: Configuration for fan-outs, Data for two relations of one lane, or one out of range.
[[nodiscard]] Status check_options(
    const NeighborSamplerOptions& options, const std::vector<core::RelationView>& relations
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

/// The subgraph in an arena. Its tensors keep the arena alive.
[[nodiscard]] SampledSubgraph subgraph_over(
    const std::shared_ptr<core::SampleArena>& arena,
    const NeighborSamplerOptions& options,
    const std::vector<core::RelationView>& relations
);

}  // namespace gnn::sampling
