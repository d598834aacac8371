#include "worker/tasks/link_workload.h"

#include "worker/nn/models/gradient_check.h"
#include "worker/tasks/data_path.h"

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

namespace gnn::tasks {
namespace {

LinkReads reads_of(const nn::LinkModel& model, const LinkInputs& inputs) {
  return {.edge_types = model.reads(), .features = types_with_features(inputs)};
}

}  // namespace

std::vector<bool> types_with_features(const LinkInputs& inputs) {
  std::vector<bool> features;
  for (const int64_t table : inputs.tables) features.push_back(table < 0);
  return features;
}

LinkWorkload::LinkWorkload(
    std::unique_ptr<TaskBatches<loader::LinkMiniBatch>> batches,
    const LinkTypes& ends,
    std::shared_ptr<nn::LinkModel> model,
    LinkInputs inputs,
    comm::RankGroups groups,
    const LinkWorkloadOptions& options
)
    : ends_(ends),
      model_(std::move(model)),
      inputs_(std::move(inputs)),
      groups_(std::move(groups)),
      options_(options),
      batches_(std::move(batches)) {}

Result<std::unique_ptr<LinkWorkload>> LinkWorkload::create(
    SplitDataset data,
    std::shared_ptr<nn::LinkModel> model,
    LinkInputs inputs,
    comm::RankGroups groups,
    const LinkWorkloadOptions& options
) {
  const graph::Dataset& dataset = data.dataset;
  const auto& links = dataset.edge_types[static_cast<size_t>(dataset.links->edge_type)];
  const LinkTypes ends{
      .source_type = links.source_index, .destination_type = links.destination_index
  };
  LinkReads reads = reads_of(*model, inputs);
  const bool reads_rows = std::ranges::any_of(reads.features, std::identity());
  GNN_ASSIGN_OR_RETURN(
      auto made,
      LinkBatches::create(
          std::move(data),
          std::move(reads),
          groups,
          {.sampling = options.sampling,
           .training = options.training,
           .split_seed = options.split_seed,
           .ranks = ranks_of(groups),
           .partitioned = options.partitioned,
           .memory = loader::memory_before(options.device),
           .device_features = options.device_features,
           .device_graph = options.device_graph}
      )
  );
  GNN_ASSIGN_OR_RETURN(
      auto batches,
      LoadedBatches<LinkBatches>::create(
          std::move(made),
          groups.all->rank(),
          pipeline_options(
              options.sampling,
              options.partitioned.has_value(),
              options.num_cpus,
              options.device,
              reads_rows && !options.device_features
          )
      )
  );
  return create(
      std::move(batches), ends, std::move(model), std::move(inputs), std::move(groups), options
  );
}

Result<std::unique_ptr<LinkWorkload>> LinkWorkload::create(
    std::unique_ptr<TaskBatches<loader::LinkMiniBatch>> batches,
    const LinkTypes& ends,
    std::shared_ptr<nn::LinkModel> model,
    LinkInputs inputs,
    comm::RankGroups groups,
    const LinkWorkloadOptions& options
) {
  std::unique_ptr<LinkWorkload> made(new LinkWorkload(
      std::move(batches), ends, std::move(model), std::move(inputs), std::move(groups), options
  ));
  GNN_ASSIGN_OR_RETURN(made->train_, made->batches_->open(training::Part::Train, Use::Training));
  GNN_RETURN_IF_ERROR(made->check_model());
  return made;
}

// The reducer waits for a gradient of each parameter: without one the ranks would hang.
Status LinkWorkload::check_model() {
  std::string problem;
  if (train_->num_batches() > 0) {
    GNN_RETURN_IF_ERROR(start_epoch(0, 0));
    GNN_ASSIGN_OR_RETURN(const auto size, next_batch());
    GNN_ASSERT(size.has_value(), "the rank has a batch");
    Status checked = nn::check_gradients(*model_, loss(forward()));
    if (!checked) problem = checked.error().message;
    if (embeddings() != nullptr) embeddings()->discard();
    current_.reset();
    past_epochs_ = {};
  }
  GNN_ASSIGN_OR_RETURN(const auto problems, comm::all_gather_bytes(*groups_.all, problem));
  for (const std::string& each : problems) {
    if (!each.empty()) return fail(ErrorKind::Configuration, each);
  }
  return {};
}

Status LinkWorkload::start_epoch(int64_t epoch, int64_t first_batch) {
  current_.reset();
  past_epochs_ = data_path();
  return train_->start_epoch(epoch, first_batch);
}

Result<std::optional<training::BatchSize>> LinkWorkload::next_batch() {
  current_.reset();  // gives the batch's memory back before the next one is taken
  GNN_ASSIGN_OR_RETURN(current_, train_->next());
  if (!current_) return std::optional<training::BatchSize>();
  training::BatchSize size{
      .items = current_->labels.size(0), .sampled_edges = current_->subgraph.num_edges()
  };
  for (const at::Tensor& ids : current_->subgraph.node_ids) size.input_nodes += ids.size(0);
  return size;
}

training::Scores LinkWorkload::forward() {
  GNN_ASSERT(current_.has_value(), "the trainer fetches a batch before each forward");
  return {.logits = score(*current_), .labels = current_->labels};
}

at::Tensor LinkWorkload::loss(const training::Scores& scores) const {
  return torch::nn::functional::binary_cross_entropy_with_logits(
      scores.logits, scores.labels.to(scores.logits.scalar_type())
  );
}

at::Tensor LinkWorkload::count_correct(const training::Scores& scores) const {
  const at::NoGradGuard no_grad;
  return scores.logits.gt(0).eq(scores.labels.gt(0)).sum();
}

// The model's rows of a node type: embeddings, read once for each node, or features.
at::Tensor LinkWorkload::input_of(size_t type, const loader::LinkMiniBatch& batch) {
  const int64_t table = inputs_.tables[type];
  const at::ScalarType wanted = training::input_type(options_.training);
  if (table < 0) return batch.x[type].defined() ? batch.x[type].to(wanted) : at::Tensor();
  const auto [ids, order] = batch.subgraph.node_ids[type].to(at::kCPU).sort();
  const at::Tensor rows = inputs_.embeddings->read(static_cast<size_t>(table), ids.contiguous());
  const at::Tensor ordered = rows.index_select(0, order.argsort().to(rows.device()));
  return wanted == at::kBFloat16 ? ordered.to(wanted) : ordered;
}

at::Tensor LinkWorkload::score(const loader::LinkMiniBatch& batch) {
  nn::TypedInputs x;
  for (size_t type = 0; type < inputs_.tables.size(); ++type) x.push_back(input_of(type, batch));
  return model_->forward(
      x,
      batch.subgraph.blocks,
      {.source_type = ends_.source_type,
       .destination_type = ends_.destination_type,
       .source_rows = batch.source_rows,
       .destination_rows = batch.destination_rows}
  );
}

progress::DataPath LinkWorkload::data_path() const {
  return data_path_of(past_epochs_, train_->stats());
}

progress::MemoryByOwner LinkWorkload::memory() const {
  progress::MemoryByOwner memory = batches_->memory();
  memory.sampler = train_->stats().sampler_bytes;
  return memory;
}

training::LinkScores LinkWorkload::held_out_scores(const loader::LinkMiniBatch& batch) {
  const at::Tensor scores = score(batch);
  if (!ranks()) return training::split_by_label(scores, batch.labels);
  return {
      .positive = scores.narrow(0, 0, batch.positives),
      .negative = scores.slice(0, batch.positives).view({batch.positives, -1})
  };
}

Result<training::Evaluated> LinkWorkload::evaluate(
    training::Part part, const training::EvaluationContext& context
) {
  GNN_ASSIGN_OR_RETURN(const auto batches, batches_->open(part, Use::Evaluation));
  GNN_RETURN_IF_ERROR(batches->start_epoch(0));
  const auto next = [&]() -> Result<std::optional<training::LinkScores>> {
    GNN_ASSIGN_OR_RETURN(const std::optional<loader::LinkMiniBatch> batch, batches->next());
    if (!batch) return std::optional<training::LinkScores>();
    return held_out_scores(*batch);
  };
  return training::evaluate_links(
      next, batches->num_batches(), options_.training.evaluation, *groups_.all, context
  );
}

}  // namespace gnn::tasks
