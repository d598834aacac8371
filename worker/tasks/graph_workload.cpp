#include "worker/tasks/graph_workload.h"

#include "worker/tasks/items.h"
#include "worker/training/evaluator.h"
#include "worker/training/meters.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <utility>

namespace gnn::tasks {
namespace {

graph::Block to_device(graph::Block block, c10::Device device) {
  block.indptr = block.indptr.to(device);
  block.indices = block.indices.to(device);
  return block;
}

}  // namespace

GraphWorkload::GraphWorkload(
    graph::Dataset dataset,
    std::shared_ptr<nn::GraphModel> model,
    std::shared_ptr<comm::Communicator> world,
    const GraphWorkloadOptions& options,
    const sampling::ItemSampler& sampler
)
    : dataset_(std::move(dataset)),
      model_(std::move(model)),
      world_(std::move(world)),
      options_(options),
      sampler_(sampler) {}

Result<std::unique_ptr<GraphWorkload>> GraphWorkload::create(
    graph::Dataset dataset,
    std::shared_ptr<nn::GraphModel> model,
    std::shared_ptr<comm::Communicator> world,
    const GraphWorkloadOptions& options
) {
  if (!dataset.graphs)
    return fail(ErrorKind::Data, dataset.name + ": a set of graphs expected, found one graph");
  sampling::ItemSamplerOptions items = train_item_options(
      options.training, options.training.sharding.value_or(api::Sharding::Interleave), *world
  );
  items.num_items = dataset.split.train.numel();
  GNN_ASSIGN_OR_RETURN(std::vector<int64_t> batches, batches_of_ranks(items));
  GNN_RETURN_IF_ERROR(check_training_batches(batches, dataset.name, items));
  GNN_ASSIGN_OR_RETURN(const auto sampler, sampling::ItemSampler::create(items));
  std::unique_ptr<GraphWorkload> made(
      new GraphWorkload(std::move(dataset), std::move(model), std::move(world), options, sampler)
  );
  made->batches_per_rank_ = std::move(batches);
  return made;
}

const at::Tensor& GraphWorkload::ids_of(training::Part part) const {
  return part == training::Part::Validation ? dataset_.split.validation : dataset_.split.test;
}

std::vector<int64_t> GraphWorkload::graphs_at(
    const at::Tensor& ids, std::span<const int64_t> places
) const {
  const int64_t* graph_ids = ids.const_data_ptr<int64_t>();
  std::vector<int64_t> graphs;
  graphs.reserve(places.size());
  for (const int64_t place : places) graphs.push_back(graph_ids[place]);
  return graphs;
}

Status GraphWorkload::start_epoch(int64_t epoch, int64_t first_batch) {
  items_.emplace(sampler_.epoch(epoch));
  next_batch_ = first_batch;
  return {};
}

Result<std::optional<training::BatchSize>> GraphWorkload::next_batch() {
  if (!items_ || next_batch_ == items_->num_batches()) return std::optional<training::BatchSize>();
  batch_ = graphs_at(dataset_.split.train, items_->batch(next_batch_++));
  return training::BatchSize{.items = static_cast<int64_t>(batch_.size())};
}

training::Scores GraphWorkload::scores_of(const GraphBatch& batch) {
  const at::Tensor x =
      dataset_.features().gather(batch.node_ids).to(options_.device).to(at::kFloat);
  return {
      .logits = model_->forward(
          x, to_device(batch.block, options_.device), batch.node_offsets.to(options_.device)
      ),
      .labels = batch.labels.to(options_.device),
  };
}

training::Scores GraphWorkload::forward() {
  const GraphBatch batch = batch_graphs(dataset_, batch_);
  feature_bytes_ += batch.node_ids.numel() * dataset_.features().row_bytes();
  return scores_of(batch);
}

training::MemoryByOwner GraphWorkload::memory() const {
  const graph::CscGraph& graph = dataset_.graph();
  return {
      .graph = static_cast<int64_t>(graph.indptr().nbytes() + graph.indices().nbytes()),
      .features = static_cast<int64_t>(dataset_.features().rows().nbytes()),
  };
}

Result<training::Evaluated> GraphWorkload::evaluate(
    training::Part part, const training::Watch& watch
) {
  const at::Tensor& ids = ids_of(part);
  GNN_ASSIGN_OR_RETURN(
      const auto sampler,
      sampling::ItemSampler::create({
          .num_items = ids.numel(),
          .batch_size = options_.training.batch_size,
          .rank = world_->rank(),
          .world_size = world_->world_size(),
      })
  );
  const sampling::EpochItems items = sampler.epoch(0);
  training::Accuracy counts;
  for (int64_t batch = 0; batch < items.num_batches() && !watch.stop.requested(); ++batch) {
    const training::Scores scores =
        scores_of(batch_graphs(dataset_, graphs_at(ids, items.batch(batch))));
    counts.correct += training::count_correct(scores);
    counts.total += scores.labels.size(0);
    watch.progress.on_mark();
  }
  return training::reduce_counts(*world_, counts, watch.stop);
}

}  // namespace gnn::tasks
