#include "worker/tasks/node_data.h"

#include "worker/tasks/run_training.h"

namespace gnn::tasks {

Result<graph::Dataset> open_node_data(const api::GnnJobSpec& spec, TaskContext& context) {
  GNN_ASSIGN_OR_RETURN(graph::Dataset dataset, load_dataset(spec, context));
  if (!dataset.target().features) {
    return fail(ErrorKind::Data, dataset.name + ": expected node features, the data set has none");
  }
  const bool needs_labels = spec.task.mode != api::TaskMode::Inference;
  if (dataset.graphs || !dataset.is_homogeneous() ||
      (needs_labels && !dataset.target().labels.defined())) {
    return fail(
        ErrorKind::Data,
        dataset.name + ": NodeClassification expects one graph with one node and one edge type" +
            (needs_labels ? " and labelled nodes" : "")
    );
  }
  return dataset;
}

}  // namespace gnn::tasks
