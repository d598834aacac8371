#include "worker/tasks/node_predictions.h"

#include "worker/tasks/items.h"
#include "worker/tasks/run_training.h"

#include <utility>

namespace gnn::tasks {

training::WholeGraph whole_graph(const graph::Dataset& dataset) {
  return {
      .graph = dataset.graph(),
      .features = dataset.features().rows(),
      .labels = dataset.target().labels,
  };
}

namespace {

// Of the nodes that a pass reads itself; undefined where none were renumbered.
at::Tensor original_ids(const PredictedGraph& predicted) {
  const graph::Dataset& dataset = predicted.dataset;
  if (!dataset.partitions) return {};
  const at::Tensor& ids = dataset.partitions->original_ids.front();
  if (predicted.own_part == nullptr) return ids;
  const data::IdRange own = predicted.own_part->shards().part()->own(0);
  return ids.narrow(0, own.begin - dataset.held(0).begin, own.size());
}

Result<training::EvaluatedParts> write(
    training::Predictions& predictions,
    const PredictedGraph& predicted,
    const comm::RankGroups& groups,
    const training::EvaluationContext& context
) {
  training::Predictions::Inputs inputs{
      .model = predicted.model,
      .original_ids = original_ids(predicted),
      .config = predicted.config_hash,
      .dataset_digest = predicted.dataset.digest
  };
  for (const api::Part part : predicted.parts)
    inputs.parts.push_back(items_of(predicted.dataset.split, part));
  if (predicted.own_part != nullptr) {
    const training::PartOfGraph own = predicted.own_part->graph();
    return predictions.write(inputs, own, groups, context, {.device = predicted.device});
  }
  const training::WholeGraph whole = whole_graph(predicted.dataset);
  return predictions.write(inputs, whole, groups, context, {.device = predicted.device});
}

}  // namespace

Result<training::EvaluatedParts> write_predictions(
    training::Predictions& predictions,
    const PredictedGraph& predicted,
    const comm::RankGroups& groups,
    const training::EvaluationContext& context
) {
  context.progress.on_phase(progress::Phase::Test);
  GNN_ASSIGN_OR_RETURN(
      training::EvaluatedParts evaluated, write(predictions, predicted, groups, context)
  );
  if (evaluated)
    context.progress.on_message(
        "Wrote predictions of " + grouped(predictions.num_nodes()) + " nodes to " +
        predictions.folder().string()
    );
  return evaluated;
}

}  // namespace gnn::tasks
