#include "worker/tasks/graph_workload.h"

#include "worker/tasks/data_path.h"
#include "worker/tasks/items.h"
#include "worker/tasks/row_type.h"
#include "worker/training/evaluator.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <utility>

namespace gnn::tasks {

GraphWorkload::GraphWorkload(
    graph::Dataset dataset,
    std::shared_ptr<nn::GraphModel> model,
    std::shared_ptr<comm::Communicator> communicator,
    const GraphWorkloadOptions& options
)
    : dataset_(std::move(dataset)),
      model_(std::move(model)),
      communicator_(std::move(communicator)),
      options_(options) {
  if (options_.class_weights.defined())
    options_.class_weights = options_.class_weights.to(options_.device);
}

Result<std::unique_ptr<GraphWorkload>> GraphWorkload::create(
    graph::Dataset dataset,
    std::shared_ptr<nn::GraphModel> model,
    std::shared_ptr<comm::Communicator> communicator,
    const GraphWorkloadOptions& options
) {
  if (!dataset.graphs)
    return fail(ErrorKind::Data, dataset.name + ": expected a set of graphs, found one graph");
  std::unique_ptr<GraphWorkload> made(
      new GraphWorkload(std::move(dataset), std::move(model), std::move(communicator), options)
  );
  const at::Tensor& train = made->dataset_.split.train;
  sampling::core::ItemSamplerOptions items = train_item_options(
      options.training,
      options.training.sharding.value_or(api::Sharding::Interleave),
      {.count = made->communicator_->world_size()}
  );
  items.rank = made->communicator_->rank();
  items.num_items = train.numel();
  GNN_ASSIGN_OR_RETURN(made->batches_per_rank_, batches_of_ranks(items));
  GNN_RETURN_IF_ERROR(check_training_batches(made->batches_per_rank_, made->dataset_.name, items));
  GNN_ASSIGN_OR_RETURN(made->train_loader_, made->make_loader(items, train));
  return made;
}

const at::Tensor& GraphWorkload::ids_of(training::Part part) const {
  return items_of(dataset_.split, part);
}

Result<std::unique_ptr<loader::GraphLoader>> GraphWorkload::make_loader(
    const sampling::core::ItemSamplerOptions& items, const at::Tensor& ids
) const {
  return loader::GraphLoader::create(
      {.items = items,
       .num_threads = loading_threads(options_.num_cpus, options_.device),
       .device = options_.device,
       .row_type = row_type(options_.training)},
      dataset_,
      ids
  );
}

Status GraphWorkload::start_epoch(int64_t epoch, int64_t first_batch) {
  current_.reset();
  past_epochs_ = data_path();
  return train_loader_->start_epoch(epoch, first_batch);
}

Result<std::optional<training::BatchSize>> GraphWorkload::next_batch() {
  current_.reset();  // gives the batch's memory back before the next one is taken
  GNN_ASSIGN_OR_RETURN(current_, train_loader_->next());
  if (!current_) return std::optional<training::BatchSize>();
  return training::BatchSize{.items = current_->graphs.labels.size(0)};
}

training::Scores GraphWorkload::scores_of(const loader::GraphMiniBatch& batch) const {
  return {
      .logits = model_->forward(
          batch.x.to(training::input_type(options_.training)),
          batch.graphs.block,
          batch.graphs.node_offsets
      ),
      .labels = batch.graphs.labels,
  };
}

training::Scores GraphWorkload::forward() {
  GNN_ASSERT(current_.has_value(), "the trainer fetches a batch before each forward");
  return scores_of(*current_);
}

progress::DataPath GraphWorkload::data_path() const {
  return data_path_of(past_epochs_, train_loader_->stats());
}

progress::MemoryByOwner GraphWorkload::memory() const {
  const graph::CscGraph& graph = dataset_.graph();
  return {
      .graph = static_cast<int64_t>(graph.indptr().nbytes() + graph.indices().nbytes()),
      .features = static_cast<int64_t>(dataset_.features().rows().nbytes()),
  };
}

Result<training::Evaluated> GraphWorkload::evaluate(
    training::Part part, const training::EvaluationContext& context
) {
  GNN_ASSIGN_OR_RETURN(
      const auto loader,
      make_loader(
          {.batch_size = options_.training.batch_size,
           .rank = communicator_->rank(),
           .world_size = communicator_->world_size()},
          ids_of(part)
      )
  );
  GNN_RETURN_IF_ERROR(loader->start_epoch(0));
  const auto next = [&]() -> Result<std::optional<training::Scores>> {
    GNN_ASSIGN_OR_RETURN(const std::optional<loader::GraphMiniBatch> batch, loader->next());
    if (!batch) return std::optional<training::Scores>();
    return scores_of(*batch);
  };
  return training::evaluate_batches(next, loader->num_batches(), *communicator_, context);
}

}  // namespace gnn::tasks
