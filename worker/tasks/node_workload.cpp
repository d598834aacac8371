#include "worker/tasks/node_workload.h"

#include "common/hash.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/core/item_sampler.h"
#include "worker/tasks/data_path.h"
#include "worker/tasks/items.h"
#include "worker/tasks/sampler_options.h"
#include "worker/training/evaluator.h"
#include "worker/training/part_layer_wise.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace gnn::tasks {
namespace {

Result<std::shared_ptr<loader::FeatureFetcher>> local_features(const graph::Dataset& dataset) {
  if (!dataset.target().features) {
    return fail(ErrorKind::Data, dataset.name + ": expected node features, the data set has none");
  }
  GNN_ASSIGN_OR_RETURN(
      loader::LocalFeatureFetcher fetcher,
      loader::LocalFeatureFetcher::create(dataset.features().rows())
  );
  return std::make_shared<loader::LocalFeatureFetcher>(std::move(fetcher));
}

}  // namespace

NodeWorkload::NodeWorkload(
    graph::Dataset dataset,
    std::shared_ptr<nn::NodeModel> model,
    comm::RankGroups groups,
    const NodeWorkloadOptions& options
)
    : dataset_(std::move(dataset)),
      model_(std::move(model)),
      groups_(std::move(groups)),
      options_(options) {}

Result<std::unique_ptr<NodeWorkload>> NodeWorkload::create(
    graph::Dataset dataset,
    std::shared_ptr<nn::NodeModel> model,
    comm::RankGroups groups,
    const NodeWorkloadOptions& options
) {
  std::unique_ptr<NodeWorkload> made(
      new NodeWorkload(std::move(dataset), std::move(model), std::move(groups), options)
  );
  const graph::Dataset& data = made->dataset_;
  if (options.partitioned) {
    GNN_RETURN_IF_ERROR(made->open_parts());
  } else {
    GNN_ASSIGN_OR_RETURN(made->features_, local_features(data));
  }
  loader::NodeLoaderOptions loader = made->loader_options();
  GNN_ASSIGN_OR_RETURN(
      loader.items,
      made->deal_part(
          training::Part::Train,
          train_item_options(options.training, made->sharding(), *made->groups_.all)
      )
  );
  GNN_ASSIGN_OR_RETURN(made->batches_per_rank_, batches_of_ranks(loader.items));
  GNN_RETURN_IF_ERROR(check_training_batches(made->batches_per_rank_, data.name, loader.items));
  GNN_ASSIGN_OR_RETURN(
      made->train_loader_, made->make_loader(loader, training::Part::Train, Use::Training)
  );
  return made;
}

// Training and evaluation have a sampler each.
Status NodeWorkload::open_parts() {
  const auto samplers = [this](const shards::Part& part) {
    std::vector<shards::SamplerSpec> specs;
    for (const training::Part of : {training::Part::Train, training::Part::Validation}) {
      specs.push_back(
          {.options = sampler_options(options_.sampling, fanout_of(of)),
           .relations = {{.lists = part.lists(0)}}}
      );
    }
    return Result<std::vector<shards::SamplerSpec>>(std::move(specs));
  };
  const TrainingItems items{
      .ids = dataset_.split.train,
      .node_type = dataset_.target_node_type,
      .batch_size = options_.training.batch_size,
      .as_partitioned = options_.partitioned->as_partitioned && !dataset_.links
  };
  GNN_ASSIGN_OR_RETURN(
      parts_, PartInputs::open(dataset_, *options_.partitioned, samplers, items, groups_)
  );
  return {};
}

const std::vector<int64_t>& NodeWorkload::fanout_of(training::Part part) const {
  const std::optional<std::vector<int64_t>>& evaluated = options_.training.evaluation.fanout;
  return part != training::Part::Train && evaluated ? *evaluated : options_.sampling.fanout;
}

Result<std::unique_ptr<loader::NodeLoader>> NodeWorkload::make_loader(
    const loader::NodeLoaderOptions& options, training::Part part, Use use
) const {
  loader::NodeLoaderOptions made = options;
  made.sampling = sampler_options(options_.sampling, fanout_of(part));
  const at::Tensor& seeds = ids_of(part);
  if (parts_ == nullptr) {
    return loader::NodeLoader::create(
        made, dataset_.graph(), seeds, features_, dataset_.target().labels
    );
  }
  std::shared_ptr<sampling::Sampler> sampler;
  if (options_.partitioned->has_own_lists_alone()) {
    GNN_ASSIGN_OR_RETURN(sampler, parts_->sampler(part == training::Part::Train ? 0 : 1, use));
  } else {
    GNN_ASSIGN_OR_RETURN(
        auto local, sampling::NeighborSampler::create(made.sampling, dataset_.graph())
    );
    sampler = std::make_shared<sampling::LocalSampler>(std::move(local));
  }
  const int64_t type = dataset_.target_node_type;
  return loader::NodeLoader::create(
      made, std::move(sampler), seeds, parts_->features(type, use), parts_->shards().labels(type)
  );
}

loader::NodeLoaderOptions NodeWorkload::loader_options() const {
  loader::NodeLoaderOptions options;
  options.num_threads = options_.sampling.num_threads.value_or(loading_threads(options_.num_cpus));
  options.concurrency =
      options_.partitioned ? options_.sampling.concurrency.value_or(kDefaultConcurrency) : 1;
  options.prefetch = options_.sampling.prefetch.value_or(kDefaultPrefetch);
  options.device = options_.device;
  return options;
}

Status NodeWorkload::start_epoch(int64_t epoch, int64_t first_batch) {
  current_.reset();
  past_epochs_ = data_path();
  return train_loader_->start_epoch(epoch, first_batch);
}

Result<std::optional<training::BatchSize>> NodeWorkload::next_batch() {
  current_.reset();  // gives the batch's memory back before the next one is taken
  GNN_ASSIGN_OR_RETURN(current_, train_loader_->next());
  if (!current_) return std::optional<training::BatchSize>();
  return training::BatchSize{
      .items = current_->seeds.size(0),
      .sampled_edges = current_->subgraph.num_edges(),
      .input_nodes = current_->subgraph.node_ids.front().size(0),
  };
}

training::Scores NodeWorkload::forward() {
  GNN_ASSERT(current_.has_value(), "the trainer fetches a batch before each forward");
  return training::scores_of(*model_, *current_);
}

progress::DataPath NodeWorkload::data_path() const {
  return data_path_of(past_epochs_, train_loader_->stats());
}

progress::MemoryByOwner NodeWorkload::memory() const {
  const int64_t sampler = train_loader_->stats().sampler_bytes;
  if (parts_ != nullptr) {
    return {
        .graph = parts_->graph_bytes(), .features = parts_->feature_bytes(), .sampler = sampler
    };
  }
  const graph::CscGraph& graph = dataset_.graph();
  return {
      .graph = static_cast<int64_t>(graph.indptr().nbytes() + graph.indices().nbytes()),
      .features = static_cast<int64_t>(dataset_.features().rows().nbytes()),
      .sampler = sampler,
  };
}

// Only Owner matters in evaluation: elsewhere each rank takes its slice.
Result<sampling::core::ItemSamplerOptions> NodeWorkload::deal_part(
    training::Part part, const sampling::core::ItemSamplerOptions& options
) const {
  return deal(
      options,
      sharding(),
      dataset_,
      {.node_type = dataset_.target_node_type, .ids = ids_of(part)},
      groups_.node->world_size()
  );
}

const at::Tensor& NodeWorkload::ids_of(training::Part part) const {
  return items_of(dataset_.split, part);
}

Result<training::Evaluated> NodeWorkload::evaluate(
    training::Part part, const training::EvaluationContext& context
) {
  if (options_.training.evaluation.mode == api::EvaluationMode::Sampled)
    return evaluate_sampled(part, context);
  GNN_ASSIGN_OR_RETURN(
      const training::EvaluatedParts evaluated, evaluate_layer_wise({part}, context)
  );
  if (!evaluated) return training::Evaluated();
  return evaluated->front();
}

Result<training::EvaluatedParts> NodeWorkload::evaluate_parts(
    const std::vector<training::Part>& parts, const training::EvaluationContext& context
) {
  if (options_.training.evaluation.mode == api::EvaluationMode::Sampled)
    return Workload::evaluate_parts(parts, context);
  context.progress.on_phase(training::phase_of(parts.front()));
  return evaluate_layer_wise(parts, context);
}

Result<training::EvaluatedParts> NodeWorkload::evaluate_layer_wise(
    const std::vector<training::Part>& parts, const training::EvaluationContext& context
) {
  std::vector<at::Tensor> ids;
  ids.reserve(parts.size());
  for (const training::Part part : parts) ids.push_back(ids_of(part));
  if (parts_ != nullptr) {
    const training::PartOfGraph own = parts_->graph();
    return training::evaluate_part_layer_wise(
        *model_, own, ids, groups_, context, {.device = options_.device}
    );
  }
  const training::WholeGraph whole{
      .graph = dataset_.graph(),
      .features = dataset_.features().rows(),
      .labels = dataset_.target().labels,
  };
  return training::evaluate_layer_wise(
      *model_, whole, ids, groups_, context, {.device = options_.device}
  );
}

Result<training::Evaluated> NodeWorkload::evaluate_sampled(
    training::Part part, const training::EvaluationContext& context
) {
  loader::NodeLoaderOptions loader = loader_options();
  const sampling::core::ItemSamplerOptions items = {
      .batch_size = options_.training.batch_size,
      .rank = groups_.all->rank(),
      .world_size = groups_.all->world_size(),
      // Not the draws that the model was trained on; the same ones in each evaluation, so that its
      // numbers differ by the model alone.
      .seed =
          splitmix64(static_cast<uint64_t>(options_.training.seed), static_cast<uint64_t>(part)),
  };
  GNN_ASSIGN_OR_RETURN(loader.items, deal_part(part, items));
  GNN_ASSIGN_OR_RETURN(const auto batches, make_loader(loader, part, Use::Evaluation));
  GNN_RETURN_IF_ERROR(batches->start_epoch(0));
  const auto next = [&]() -> Result<std::optional<training::Scores>> {
    GNN_ASSIGN_OR_RETURN(const std::optional<loader::MiniBatch> batch, batches->next());
    if (!batch) return std::optional<training::Scores>();
    return training::scores_of(*model_, *batch);
  };
  return training::evaluate_batches(next, batches->num_batches(), *groups_.all, context);
}

}  // namespace gnn::tasks
