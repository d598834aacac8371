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

Result<training::EvaluatedParts> write_predictions(
    training::Predictions& predictions,
    const PredictedGraph& predicted,
    const comm::RankGroups& groups,
    const training::EvaluationContext& context
) {
  const training::WholeGraph whole = whole_graph(predicted.dataset);
  std::vector<at::Tensor> parts;
  for (const api::Part part : predicted.parts)
    parts.push_back(items_of(predicted.dataset.split, part));
  context.progress.on_phase(progress::Phase::Test);
  GNN_ASSIGN_OR_RETURN(
      training::EvaluatedParts evaluated,
      predictions.write(
          {.model = predicted.model,
           .whole = whole,
           .parts = std::move(parts),
           .config = predicted.config_hash,
           .dataset_digest = predicted.dataset.digest},
          groups,
          context,
          {.device = predicted.device}
      )
  );
  if (evaluated)
    context.progress.on_message(
        "Wrote predictions of " + grouped(predictions.num_nodes()) + " nodes to " +
        predictions.folder().string()
    );
  return evaluated;
}

}  // namespace gnn::tasks
