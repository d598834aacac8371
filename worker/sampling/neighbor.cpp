#include "worker/sampling/neighbor.h"

#include "common/recycler.h"
#include "worker/sampling/core/neighbor_kernel.h"
#include "worker/sampling/sample_parts.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <string>
#include <utility>

namespace gnn::sampling {

namespace {

using core::NeighborKernel;
using core::RelationView;
using core::SampleArena;

RelationView view_of(const Relation& relation, size_t place) {
  RelationView view;
  view.indptr = relation.graph.indptr().const_data_ptr<int64_t>();
  if (relation.graph.indices().scalar_type() == at::kInt) {
    view.indices32 = relation.graph.indices().const_data_ptr<int32_t>();
  } else {
    view.indices64 = relation.graph.indices().const_data_ptr<int64_t>();
  }
  if (relation.graph.edge_ids().defined())
    view.edge_ids = relation.graph.edge_ids().const_data_ptr<int64_t>();
  view.source_type = static_cast<int>(relation.source_type);
  view.destination_type = static_cast<int>(relation.destination_type);
  if (relation.ends.defined()) view.ends = relation.ends.const_data_ptr<int64_t>();
  view.lane =
      static_cast<uint32_t>(relation.lane < 0 ? static_cast<int64_t>(place) : relation.lane);
  view.fanout = relation.fanout;
  return view;
}

Status check_ends(const Relation& relation, const std::string& where) {
  if (!relation.ends.defined()) return {};
  const int64_t destinations = relation.graph.num_destinations();
  TORCH_CHECK(
      relation.ends.dim() == 1 && relation.ends.scalar_type() == at::kLong &&
          relation.ends.is_contiguous() && relation.ends.is_cpu(),
      where,
      "ends must be a contiguous int64 vector on the CPU"
  );
  if (relation.ends.numel() != destinations) {
    return fail(
        ErrorKind::Data,
        where + "expected " + std::to_string(destinations) + " ends of neighbour lists, found " +
            std::to_string(relation.ends.numel())
    );
  }
  const auto* const indptr = relation.graph.indptr().const_data_ptr<int64_t>();
  const auto* const ends = relation.ends.const_data_ptr<int64_t>();
  for (int64_t node = 0; node < destinations; ++node) {
    if (ends[node] < indptr[node] || ends[node] > indptr[node + 1]) {
      return fail(
          ErrorKind::Data,
          where + "ends[" + std::to_string(node) + "]: expected a position in [" +
              std::to_string(indptr[node]) + ", " + std::to_string(indptr[node + 1]) + "], found " +
              std::to_string(ends[node])
      );
    }
  }
  return {};
}

Status check(const std::vector<int64_t>& num_nodes, const std::vector<Relation>& relations) {
  const auto num_types = static_cast<int64_t>(num_nodes.size());
  for (size_t i = 0; i < relations.size(); ++i) {
    const Relation& relation = relations[i];
    const std::string where = "relation " + std::to_string(i) + ": ";
    for (const int64_t type : {relation.source_type, relation.destination_type}) {
      if (type < 0 || type >= num_types) {
        return fail(
            ErrorKind::Data,
            where + "node type " + std::to_string(type) + " is not one of " +
                std::to_string(num_types)
        );
      }
    }
    const int64_t sources = num_nodes[static_cast<size_t>(relation.source_type)];
    const int64_t destinations = num_nodes[static_cast<size_t>(relation.destination_type)];
    if (relation.graph.num_sources() != sources ||
        relation.graph.num_destinations() != destinations) {
      return fail(
          ErrorKind::Data,
          where + "expected " + std::to_string(sources) + " source and " +
              std::to_string(destinations) + " destination nodes, found " +
              std::to_string(relation.graph.num_sources()) + " and " +
              std::to_string(relation.graph.num_destinations())
      );
    }
    GNN_RETURN_IF_ERROR(check_ends(relation, where));
  }
  return {};
}

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
  GNN_RETURN_IF_ERROR(check(num_nodes, relations));
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
