#include "worker/sampling/neighbor.h"

#include "common/recycler.h"
#include "worker/sampling/core/neighbor_kernel.h"
#include "worker/sampling/sample_parts.h"

#include <algorithm>
#include <string>
#include <utility>

namespace gnn::sampling {

namespace {

using core::NeighborKernel;
using core::RelationView;
using core::SampleArena;

}  // namespace

class NeighborSampler::Impl {
 public:
  Impl(
      NeighborSamplerOptions options,
      std::vector<int64_t> num_nodes,
      std::vector<Relation> relations
  )
      : options_(std::move(options)),
        num_nodes_(std::move(num_nodes)),
        relations_(std::move(relations)),
        kernels_([this] { return make_kernel(); }),
        arenas_([] { return std::make_unique<SampleArena>(); }) {
    for (size_t i = 0; i < relations_.size(); ++i) views_.push_back(view_of(relations_[i], i));
  }

  [[nodiscard]] Result<SampledSubgraph> sample(
      const std::vector<at::Tensor>& seeds,
      const core::StreamPosition& position,
      const std::vector<ExcludedEdges>& excluded
  ) {
    GNN_ASSIGN_OR_RETURN(const auto spans, checked_seeds(seeds, num_nodes_));
    const BatchExclusions exclusions(excluded, relations_.size());
    std::shared_ptr<SampleArena> arena = arenas_.borrow();
    {
      const std::shared_ptr<NeighborKernel> kernel = kernels_.borrow();
      kernel->sample(spans, position, *arena, exclusions.by_relation());
    }
    return subgraph_over(arena, options_, views_);
  }

  [[nodiscard]] const NeighborSamplerOptions& options() const { return options_; }

  [[nodiscard]] int64_t state_bytes_per_thread() const {
    size_t largest = 0;
    kernels_.for_each_idle([&](const NeighborKernel& kernel) {
      largest = std::max(largest, kernel.state_bytes());
    });
    return static_cast<int64_t>(largest);
  }

 private:
  [[nodiscard]] std::unique_ptr<NeighborKernel> make_kernel() const {
    return std::make_unique<NeighborKernel>(num_nodes_, views_, kernel_options(options_));
  }

  const NeighborSamplerOptions options_;
  const std::vector<int64_t> num_nodes_;
  const std::vector<Relation> relations_;  // keeps the views' arrays alive
  std::vector<RelationView> views_;
  Recycler<NeighborKernel> kernels_;
  Recycler<SampleArena> arenas_;
};

Result<NeighborSampler> NeighborSampler::create(
    NeighborSamplerOptions options, const graph::CscGraph& graph
) {
  if (graph.num_sources() != graph.num_destinations()) {
    return fail(
        ErrorKind::Data,
        "a graph of one node type must have as many sources as destinations, found " +
            std::to_string(graph.num_sources()) + " and " + std::to_string(graph.num_destinations())
    );
  }
  return create(std::move(options), {graph.num_sources()}, {Relation{.graph = graph}});
}

Result<NeighborSampler> NeighborSampler::create(
    NeighborSamplerOptions options, std::vector<int64_t> num_nodes, std::vector<Relation> relations
) {
  std::vector<RelationView> views;
  for (size_t i = 0; i < relations.size(); ++i) views.push_back(view_of(relations[i], i));
  GNN_RETURN_IF_ERROR(check_options(options, views));
  GNN_RETURN_IF_ERROR(check_relations(num_nodes, relations));
  return NeighborSampler(
      std::make_shared<Impl>(std::move(options), std::move(num_nodes), std::move(relations))
  );
}

Result<SampledSubgraph> NeighborSampler::sample(
    const at::Tensor& seeds, const core::StreamPosition& position
) const {
  return impl_->sample({seeds}, position, {});
}

Result<SampledSubgraph> NeighborSampler::sample(
    const std::vector<at::Tensor>& seeds,
    const core::StreamPosition& position,
    const std::vector<ExcludedEdges>& excluded
) const {
  return impl_->sample(seeds, position, excluded);
}

const NeighborSamplerOptions& NeighborSampler::options() const {
  return impl_->options();
}

int64_t NeighborSampler::state_bytes_per_thread() const {
  return impl_->state_bytes_per_thread();
}

}  // namespace gnn::sampling
