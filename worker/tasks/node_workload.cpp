#include "worker/tasks/node_workload.h"

#include "worker/tasks/data_path.h"
#include "worker/tasks/node_predictions.h"
#include "worker/training/evaluator.h"
#include "worker/training/part_layer_wise.h"

#include <ATen/ATen.h>

#include <utility>

namespace gnn::tasks {

NodeWorkload::NodeWorkload(
    std::unique_ptr<TaskBatches<loader::MiniBatch>> batches,
    std::shared_ptr<nn::NodeModel> model,
    comm::RankGroups groups,
    const NodeWorkloadOptions& options
)
    : model_(std::move(model)),
      groups_(std::move(groups)),
      options_(options),
      batches_(std::move(batches)) {
  if (options_.class_weights.defined())
    options_.class_weights = options_.class_weights.to(options_.device);
}

Result<std::unique_ptr<NodeWorkload>> NodeWorkload::create(
    graph::Dataset dataset,
    std::shared_ptr<nn::NodeModel> model,
    comm::RankGroups groups,
    const NodeWorkloadOptions& options
) {
  GNN_ASSIGN_OR_RETURN(
      auto data,
      NodeBatches::create(
          std::move(dataset),
          groups,
          {.sampling = options.sampling,
           .training = options.training,
           .ranks = ranks_of(groups),
           .partitioned = options.partitioned,
           .memory = loader::memory_before(options.device),
           .device_features = options.device_features,
           .device_graph = options.device_graph}
      )
  );
  GNN_ASSIGN_OR_RETURN(
      auto batches,
      LoadedBatches<NodeBatches>::create(
          data,
          groups.all->rank(),
          pipeline_options(
              options.sampling,
              options.partitioned.has_value(),
              options.num_cpus,
              options.device,
              !options.device_features
          )
      )
  );
  GNN_ASSIGN_OR_RETURN(
      auto made, create(std::move(batches), std::move(model), std::move(groups), options)
  );
  made->data_ = std::move(data);
  return made;
}

Result<std::unique_ptr<NodeWorkload>> NodeWorkload::create(
    std::unique_ptr<TaskBatches<loader::MiniBatch>> batches,
    std::shared_ptr<nn::NodeModel> model,
    comm::RankGroups groups,
    const NodeWorkloadOptions& options
) {
  std::unique_ptr<NodeWorkload> made(
      new NodeWorkload(std::move(batches), std::move(model), std::move(groups), options)
  );
  GNN_ASSIGN_OR_RETURN(made->train_, made->batches_->open(training::Part::Train, Use::Training));
  return made;
}

Status NodeWorkload::start_epoch(int64_t epoch, int64_t first_batch) {
  current_.reset();
  past_epochs_ = data_path();
  return train_->start_epoch(epoch, first_batch);
}

Result<std::optional<training::BatchSize>> NodeWorkload::next_batch() {
  current_.reset();  // gives the batch's memory back before the next one is taken
  GNN_ASSIGN_OR_RETURN(current_, train_->next());
  if (!current_) return std::optional<training::BatchSize>();
  return training::BatchSize{
      .items = current_->seeds.size(0),
      .sampled_edges = current_->subgraph.num_edges(),
      .input_nodes = current_->subgraph.node_ids.front().size(0),
  };
}

training::Scores NodeWorkload::forward() {
  GNN_ASSERT(current_.has_value(), "the trainer fetches a batch before each forward");
  return training::scores_of(*model_, *current_, training::input_type(options_.training));
}

progress::DataPath NodeWorkload::data_path() const {
  return data_path_of(past_epochs_, train_->stats());
}

progress::MemoryByOwner NodeWorkload::memory() const {
  progress::MemoryByOwner memory = batches_->memory();
  memory.sampler = train_->stats().sampler_bytes;
  return memory;
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
  GNN_ASSERT(data_ != nullptr, "validation refuses a pass over a graph that servers have");
  std::vector<at::Tensor> ids;
  ids.reserve(parts.size());
  training::EvaluationContext of_parts = context;
  for (const training::Part part : parts) {
    if (part == training::Part::Test) of_parts.answers.part = ids.size();
    ids.push_back(data_->ids_of(part));
  }
  if (data_->parts() != nullptr) {
    const training::PartOfGraph own = data_->parts()->graph();
    return training::evaluate_part_layer_wise(
        *model_, own, ids, groups_, of_parts, {.device = options_.device}
    );
  }
  const training::WholeGraph whole = whole_graph(data_->dataset());
  return training::evaluate_layer_wise(
      *model_, whole, ids, groups_, of_parts, {.device = options_.device}
  );
}

Result<bool> NodeWorkload::predict(const training::EvaluationContext& context) {
  GNN_ASSERT(data_ != nullptr, "validation refuses a pass over a graph that servers have");
  GNN_ASSIGN_OR_RETURN(
      const training::EvaluatedParts written,
      write_predictions(
          *options_.predictions,
          {.model = *model_,
           .dataset = data_->dataset(),
           .config_hash = options_.config_hash,
           .device = options_.device,
           .own_part = data_->parts()},
          groups_,
          context
      )
  );
  return written.has_value();
}

Result<training::Evaluated> NodeWorkload::evaluate_sampled(
    training::Part part, const training::EvaluationContext& context
) {
  GNN_ASSIGN_OR_RETURN(const auto batches, batches_->open(part, Use::Evaluation));
  GNN_RETURN_IF_ERROR(batches->start_epoch(0));
  const auto next = [&]() -> Result<std::optional<training::Scores>> {
    GNN_ASSIGN_OR_RETURN(const std::optional<loader::MiniBatch> batch, batches->next());
    if (!batch) return std::optional<training::Scores>();
    return training::scores_of(*model_, *batch, training::input_type(options_.training));
  };
  return training::evaluate_batches(next, batches->num_batches(), *groups_.all, context);
}

}  // namespace gnn::tasks
