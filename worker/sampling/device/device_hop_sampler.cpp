#include "worker/sampling/device/device_hop_sampler.h"

#include "common/guarded.h"
#include "worker/sampling/core/drawn_lists.h"
#include "worker/sampling/device/device_errors.h"
#include "worker/sampling/device/sampling_device.h"
#include "worker/sampling/sample_parts.h"

#include <cstddef>
#include <span>
#include <string>

namespace gnn::sampling::device {

struct DeviceHopSampler::Shared {
  NeighborSamplerOptions options;
  std::vector<int64_t> num_nodes;
  std::shared_ptr<DeviceGraph> graph;  // keeps what the samplers read
  std::vector<core::RelationView> relations;
  BatchLimits limits;
  struct Samplers {
    std::vector<std::unique_ptr<BatchSampler>> idle;
    size_t made = 0;
  };
  Guarded<Samplers> samplers;

  [[nodiscard]] Result<std::unique_ptr<BatchSampler>> take() {
    {
      auto locked = samplers.lock();
      locked.wait([this](const Samplers& now) {
        return !now.idle.empty() || now.made < limits.in_flight;
      });
      if (!locked->idle.empty()) {
        std::unique_ptr<BatchSampler> taken = std::move(locked->idle.back());
        locked->idle.pop_back();
        return taken;
      }
      ++locked->made;
    }
    auto sampler = make();
    if (!sampler) {
      --samplers.lock()->made;
      samplers.notify_one();
    }
    return sampler;
  }
  void give_back(std::unique_ptr<BatchSampler> sampler) {
    samplers.lock()->idle.push_back(std::move(sampler));
    samplers.notify_one();
  }

 private:
  [[nodiscard]] Result<std::unique_ptr<BatchSampler>> make() const {
    return on_device([&] {
      return graph->device().make_sampler(
          {.num_nodes = num_nodes,
           .relations = relations,
           .options = kernel_options(options),
           .largest = limits.largest}
      );
    });
  }
};

class DeviceHopSampler::Batch final : public HopBatch {
 public:
  Batch(std::shared_ptr<Shared> shared, std::unique_ptr<BatchSampler> sampler)
      : shared_(std::move(shared)), sampler_(std::move(sampler)) {}
  ~Batch() override { give_back(); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  [[nodiscard]] BatchSampler& sampler() const { return *sampler_; }

  [[nodiscard]] size_t hop() const override { return hop_; }

  [[nodiscard]] std::vector<Wanted> wanted() const override {
    std::vector<Wanted> all;
    for (size_t relation = 0; relation < shared_->relations.size(); ++relation) {
      const auto nodes = sampler_->destinations(relation);
      if (!nodes.empty()) all.push_back({.relation = relation, .nodes = nodes});
    }
    return all;
  }

  [[nodiscard]] Status add_hop(std::span<const core::DrawnLists> drawn) override {
    ++hop_;
    return on_device([&] { return sampler_->add_hop(drawn); });
  }

  // Another batch may be begun as soon as the caller knows that this one is done.
  [[nodiscard]] Result<SampledSubgraph> finish() override {
    auto sampled =
        on_device([&] { return subgraph_of(*sampler_, shared_->options, shared_->relations); });
    give_back();
    return sampled;
  }

 private:
  void give_back() {
    if (sampler_ != nullptr) shared_->give_back(std::move(sampler_));
  }

  const std::shared_ptr<Shared> shared_;
  std::unique_ptr<BatchSampler> sampler_;
  size_t hop_ = 0;
};

Result<std::shared_ptr<const HopBatches>> DeviceHopSampler::create(
    NeighborSamplerOptions options,
    std::vector<int64_t> num_nodes,
    const std::vector<PartOfRelation>& relations,
    std::shared_ptr<DeviceGraph> graph,
    BatchLimits limits
) {
  const auto shared = std::make_shared<Shared>();
  shared->limits = std::move(limits);
  shared->options = std::move(options);
  shared->num_nodes = std::move(num_nodes);
  shared->graph = std::move(graph);
  for (size_t i = 0; i < relations.size(); ++i)
    shared->relations.push_back(view_of(relations[i].relation, i));
  GNN_RETURN_IF_ERROR(check_options(shared->options, shared->relations));
  for (size_t i = 0; i < relations.size(); ++i) {
    GNN_ASSIGN_OR_RETURN(
        shared->relations[i],
        shared->graph->view_of(relations[i].relation, i, shared->options.with_edge_ids)
    );
    shared->relations[i].first_node = relations[i].first_node;
  }
  return std::shared_ptr<const HopBatches>(new DeviceHopSampler(shared));
}

Result<std::shared_ptr<HopBatch>> DeviceHopSampler::begin(const SampleRequest& request) const {
  GNN_ASSIGN_OR_RETURN(const auto seeds, checked_seeds(request.seeds, shared_->num_nodes));
  const BatchExclusions exclusions(request.excluded, shared_->relations.size());
  GNN_ASSIGN_OR_RETURN(auto sampler, shared_->take());
  return on_device([&]() -> Result<std::shared_ptr<HopBatch>> {
    const auto batch = std::make_shared<Batch>(shared_, std::move(sampler));
    GNN_RETURN_IF_ERROR(
        batch->sampler().begin_hops(seeds, request.position, exclusions.by_relation())
    );
    return batch;
  });
}

}  // namespace gnn::sampling::device
