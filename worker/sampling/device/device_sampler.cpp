#include "worker/sampling/device/device_sampler.h"

#include "worker/sampling/device/device_errors.h"
#include "worker/sampling/sample_parts.h"

#include <optional>
#include <string>
#include <utility>

namespace gnn::sampling::device {
DeviceSampler::DeviceSampler(
    NeighborSamplerOptions options,
    std::vector<int64_t> num_nodes,
    std::shared_ptr<DeviceGraph> graph,
    size_t in_flight
)
    : options_(std::move(options)),
      num_nodes_(std::move(num_nodes)),
      graph_(std::move(graph)),
      idle_(in_flight) {}

Result<std::shared_ptr<DeviceSampler>> DeviceSampler::create(
    NeighborSamplerOptions options,
    std::vector<int64_t> num_nodes,
    const std::vector<Relation>& relations,
    std::shared_ptr<DeviceGraph> graph,
    const BatchLimits& limits
) {
  std::shared_ptr<DeviceSampler> made(new DeviceSampler(
      std::move(options), std::move(num_nodes), std::move(graph), limits.in_flight
  ));
  std::vector<core::RelationView> views;
  for (size_t i = 0; i < relations.size(); ++i) views.push_back(view_of(relations[i], i));
  GNN_RETURN_IF_ERROR(check_options(made->options_, views));
  GNN_RETURN_IF_ERROR(check_relations(made->num_nodes_, relations));
  for (size_t i = 0; i < relations.size(); ++i) {
    GNN_ASSIGN_OR_RETURN(
        core::RelationView view,
        made->graph_->view_of(relations[i], i, made->options_.with_edge_ids)
    );
    made->relations_.push_back(std::move(view));
  }
  for (size_t i = 0; i < limits.in_flight; ++i) {
    auto sampler = made->graph_->device().make_sampler(
        {.num_nodes = made->num_nodes_,
         .relations = made->relations_,
         .options = kernel_options(made->options_),
         .largest = limits.largest}
    );
    if (!sampler) return tl::unexpected(device_error(std::move(sampler).error()));
    GNN_RETURN_IF_ERROR(made->idle_.push(std::move(*sampler)));
  }
  return made;
}

void DeviceSampler::start(SampleRequest request, const Executor& /*executor*/, Done done) {
  done(sample(request));
}

Result<SampledSubgraph> DeviceSampler::sample(const SampleRequest& request) {
  GNN_ASSIGN_OR_RETURN(const auto seeds, checked_seeds(request.seeds, num_nodes_));
  GNN_ASSIGN_OR_RETURN(auto sampler, idle_.pop());
  GNN_ASSERT(sampler.has_value(), "nobody closes the queue");
  Result<SampledSubgraph> sampled = on_device([&] { return sample_by(**sampler, seeds, request); });
  GNN_RETURN_IF_ERROR(idle_.push(*std::move(sampler)));
  return sampled;
}

Result<SampledSubgraph> DeviceSampler::sample_by(
    BatchSampler& sampler,
    std::span<const std::span<const int64_t>> seeds,
    const SampleRequest& request
) const {
  const BatchExclusions exclusions(request.excluded, relations_.size());
  GNN_RETURN_IF_ERROR(sampler.begin(seeds, request.position, exclusions.by_relation()));
  return subgraph_of(sampler, options_, relations_);
}

}  // namespace gnn::sampling::device
