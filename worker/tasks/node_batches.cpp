#include "worker/tasks/node_batches.h"

#include "worker/sampling/async_sampler.h"
#include "worker/tasks/device_sampling.h"
#include "worker/tasks/row_type.h"
#include "worker/tasks/sampled_shape.h"
#include "worker/tasks/sampler_options.h"

#include <utility>

namespace gnn::tasks {
namespace {

Result<std::shared_ptr<loader::FeatureFetcher>> local_rows(
    at::Tensor rows, loader::HostMemory memory, loader::RowType type
) {
  GNN_ASSIGN_OR_RETURN(
      loader::LocalFeatureFetcher fetcher,
      loader::LocalFeatureFetcher::create(std::move(rows), memory, type)
  );
  return std::make_shared<loader::LocalFeatureFetcher>(std::move(fetcher));
}

}  // namespace

Result<sampling::core::ItemSamplerOptions> node_items(
    const graph::Dataset& dataset,
    const api::Training& training,
    const Ranks& ranks,
    api::Part part,
    Use use
) {
  return deal(
      item_options(training, ranks, part, use),
      sharding_of(training),
      dataset,
      {.node_type = dataset.target_node_type, .ids = items_of(dataset.split, part)},
      ranks.per_node
  );
}

NodeBatches::NodeBatches(graph::Dataset dataset, const NodeBatchesOptions& options)
    : dataset_(std::move(dataset)), options_(options) {}

Result<std::shared_ptr<const NodeBatches>> NodeBatches::create(
    graph::Dataset dataset, const comm::RankGroups& groups, const NodeBatchesOptions& options
) {
  std::shared_ptr<NodeBatches> made(new NodeBatches(std::move(dataset), options));
  const graph::Dataset& data = made->dataset_;
  if (options.partitioned) {
    GNN_RETURN_IF_ERROR(made->open_parts(groups));
    return std::shared_ptr<const NodeBatches>(std::move(made));
  }
  if (!data.target().features) {
    return fail(ErrorKind::Data, data.name + ": expected node features, the data set has none");
  }
  GNN_RETURN_IF_ERROR(made->open_rows(groups));
  if (data.target().labels.defined()) {
    GNN_ASSIGN_OR_RETURN(
        made->labels_, local_rows(data.target().labels, options.memory, loader::RowType::AsStored)
    );
  }
  return std::shared_ptr<const NodeBatches>(std::move(made));
}

Status NodeBatches::open_rows(const comm::RankGroups& groups) {
  const loader::RowType type = row_type(options_.training);
  if (!options_.device_features) {
    GNN_ASSIGN_OR_RETURN(features_, local_rows(dataset_.features().rows(), options_.memory, type));
    return {};
  }
  const shards::SamplerSpec sampler{
      .options = sampler_options(options_.sampling, options_.training, api::Part::Train),
      .relations =
          {{.lists = shards::PartLists::of(dataset_.graph(), {0, dataset_.target().num_nodes})}}
  };
  GNN_ASSIGN_OR_RETURN(
      const auto fetchers,
      device_fetchers(
          dataset_,
          {true},
          {.sampler = sampler, .items = training_items()},
          *options_.device_features,
          type,
          groups
      )
  );
  features_ = fetchers.front();
  return {};
}

TrainingItems NodeBatches::training_items() const {
  return {
      .ids = dataset_.split.train,
      .node_type = dataset_.target_node_type,
      .batch_size = options_.training.batch_size,
      .as_partitioned =
          options_.partitioned && options_.partitioned->as_partitioned && !dataset_.links
  };
}

// Training and evaluation have a sampler each.
Status NodeBatches::open_parts(const comm::RankGroups& groups) {
  const auto samplers = [this](const shards::Part& part) {
    std::vector<shards::SamplerSpec> specs;
    for (const api::Part of : {api::Part::Train, api::Part::Validation}) {
      specs.push_back(
          {.options = sampler_options(options_.sampling, options_.training, of),
           .relations = {{.lists = part.lists(0)}}}
      );
    }
    return Result<std::vector<shards::SamplerSpec>>(std::move(specs));
  };
  GNN_ASSIGN_OR_RETURN(
      parts_, PartInputs::open(dataset_, *options_.partitioned, samplers, training_items(), groups)
  );
  return {};
}

Result<std::shared_ptr<sampling::Sampler>> NodeBatches::sampler(
    api::Part part, Use use, int64_t under_way
) const {
  const bool in_steps = options_.partitioned && options_.partitioned->has_own_lists_alone();
  std::optional<sampling::device::LargestBatch> largest;
  if (options_.device_graph != nullptr) {
    largest = largest_batch(
        {.sampling = options_.sampling,
         .training = options_.training,
         .dataset = dataset_,
         .edge_types = {0},
         .in_steps = in_steps},
        part,
        use
    );
  }
  if (in_steps) {
    return parts_->sampler(
        part == api::Part::Train ? 0 : 1,
        use,
        options_.device_graph,
        {.in_flight = static_cast<size_t>(under_way), .largest = std::move(largest)}
    );
  }
  return whole_graph_sampler(
      sampler_options(options_.sampling, options_.training, part),
      {dataset_.target().num_nodes},
      {{.graph = dataset_.graph()}},
      options_.device_graph,
      std::move(largest)
  );
}

Result<std::shared_ptr<const NodeBatches::Maker>> NodeBatches::maker(
    api::Part part, Use use, int64_t under_way
) const {
  GNN_ASSIGN_OR_RETURN(auto sampling, sampler(part, use, under_way));
  const at::Tensor seeds = ids_of(part).contiguous();
  if (parts_ == nullptr) {
    return Maker::create(std::move(sampling), seeds, features_, labels_);
  }
  const int64_t type = dataset_.target_node_type;
  return Maker::create(
      std::move(sampling), seeds, parts_->features(type, use), parts_->shards().labels(type)
  );
}

progress::MemoryByOwner NodeBatches::memory() const {
  if (parts_ != nullptr)
    return {.graph = parts_->graph_bytes(), .features = parts_->feature_bytes()};
  const graph::CscGraph& graph = dataset_.graph();
  return {
      .graph = static_cast<int64_t>(graph.indptr().nbytes() + graph.indices().nbytes()),
      .features = static_cast<int64_t>(dataset_.features().rows().nbytes()),
  };
}

}  // namespace gnn::tasks
