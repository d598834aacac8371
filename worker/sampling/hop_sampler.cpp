#include "worker/sampling/hop_sampler.h"

#include "common/recycler.h"
#include "worker/sampling/core/neighbor_kernel.h"
#include "worker/sampling/sample_parts.h"

#include <algorithm>
#include <string>
#include <utility>

namespace gnn::sampling {

using core::NeighborKernel;
using core::RelationView;
using core::SampleArena;

class HopSampler::Impl {
 public:
  Impl(
      NeighborSamplerOptions options,
      std::vector<int64_t> num_nodes,
      std::vector<RelationView> relations
  )
      : options_(std::move(options)),
        num_nodes_(std::move(num_nodes)),
        relations_(std::move(relations)),
        kernels_([this] {
          return std::make_unique<NeighborKernel>(num_nodes_, relations_, kernel_options(options_));
        }),
        arenas_([] { return std::make_unique<SampleArena>(); }) {}

  [[nodiscard]] std::shared_ptr<NeighborKernel> borrow_kernel() { return kernels_.borrow(); }
  [[nodiscard]] std::shared_ptr<SampleArena> borrow_arena() { return arenas_.borrow(); }
  [[nodiscard]] const NeighborSamplerOptions& options() const { return options_; }
  [[nodiscard]] const std::vector<int64_t>& num_nodes() const { return num_nodes_; }
  [[nodiscard]] const std::vector<RelationView>& relations() const { return relations_; }

  [[nodiscard]] int64_t state_bytes() const {
    size_t largest = 0;
    kernels_.for_each_idle([&](const NeighborKernel& kernel) {
      largest = std::max(largest, kernel.state_bytes());
    });
    return static_cast<int64_t>(largest);
  }

 private:
  const NeighborSamplerOptions options_;
  const std::vector<int64_t> num_nodes_;
  const std::vector<RelationView> relations_;
  Recycler<NeighborKernel> kernels_;
  Recycler<SampleArena> arenas_;
};

HopSampler::Batch::Batch(std::shared_ptr<Impl> impl, const SampleRequest& request)
    : impl_(std::move(impl)),
      exclusions_(request.excluded, impl_->relations().size()),
      arena_(impl_->borrow_arena()),
      kernel_(impl_->borrow_kernel()) {}

std::vector<HopBatch::Wanted> HopSampler::Batch::wanted() const {
  std::vector<Wanted> all;
  for (size_t relation = 0; relation < impl_->relations().size(); ++relation) {
    const auto nodes = kernel_->destinations(relation, hop_, *arena_);
    if (nodes.empty()) continue;
    all.push_back({.relation = relation, .nodes = nodes});
  }
  return all;
}

Status HopSampler::Batch::add_hop(std::span<const core::DrawnLists> drawn) {
  kernel_->add_hop(hop_, drawn, *arena_, exclusions_.by_relation());
  ++hop_;
  return {};
}

Result<SampledSubgraph> HopSampler::Batch::finish() {
  kernel_.reset();  // for the next batch
  return subgraph_over(arena_, impl_->options(), impl_->relations());
}

Result<HopSampler> HopSampler::create(
    NeighborSamplerOptions options,
    std::vector<int64_t> num_nodes,
    const std::vector<RelationShape>& relations
) {
  std::vector<RelationView> views;
  for (size_t i = 0; i < relations.size(); ++i) {
    const RelationShape& relation = relations[i];
    for (const int64_t type : {relation.source_type, relation.destination_type}) {
      if (type < 0 || type >= static_cast<int64_t>(num_nodes.size())) {
        return fail(
            ErrorKind::Data,
            "relation " + std::to_string(i) + ": node type " + std::to_string(type) +
                " is not one of " + std::to_string(num_nodes.size())
        );
      }
    }
    RelationView& view = views.emplace_back();
    view.source_type = static_cast<int>(relation.source_type);
    view.destination_type = static_cast<int>(relation.destination_type);
    view.lane = static_cast<uint32_t>(relation.lane < 0 ? static_cast<int64_t>(i) : relation.lane);
    view.fanout = relation.fanout;
  }
  GNN_RETURN_IF_ERROR(check_options(options, views));
  return HopSampler(
      std::make_shared<Impl>(std::move(options), std::move(num_nodes), std::move(views))
  );
}

Result<std::shared_ptr<HopBatch>> HopSampler::begin(const SampleRequest& request) const {
  GNN_ASSIGN_OR_RETURN(const auto seeds, checked_seeds(request.seeds, impl_->num_nodes()));
  const auto batch = std::make_shared<Batch>(impl_, request);
  batch->kernel_->begin(seeds, *batch->arena_);
  return batch;
}

int64_t HopSampler::state_bytes_per_batch() const {
  return impl_->state_bytes();
}

}  // namespace gnn::sampling
