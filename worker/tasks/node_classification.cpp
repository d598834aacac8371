#include "worker/tasks/node_classification.h"

#include "worker/tasks/models.h"
#include "worker/tasks/node_workload.h"
#include "worker/tasks/run_training.h"
#include "worker/training/trainer.h"

#include <torch/utils.h>

#include <utility>

namespace gnn::tasks {
namespace {

Result<graph::Dataset> open_prepared(const api::GnnJobSpec& spec, TaskContext& context) {
  GNN_ASSIGN_OR_RETURN(graph::Dataset dataset, load_dataset(spec, context));
  if (!dataset.target().features) {
    return fail(ErrorKind::Data, dataset.name + ": expected node features, the data set has none");
  }
  if (dataset.graphs || !dataset.is_homogeneous() || !dataset.target().labels.defined()) {
    return fail(
        ErrorKind::Data,
        dataset.name +
            ": NodeClassification expects one graph with one node and one edge type and labelled "
            "nodes"
    );
  }
  return dataset;
}

class NodeClassification final : public TaskRun {
 public:
  explicit NodeClassification(api::GnnJobSpec spec) : spec_(std::move(spec)) {}

  Result<TaskResult> run(TaskContext& context) override {
    context.progress.on_phase(progress::Phase::Setup);
    GNN_ASSIGN_OR_RETURN(graph::Dataset dataset, open_prepared(spec_, context));
    context.progress.on_message(describe(dataset));
    const training::TrainerOptions options = trainer_options(spec_, dataset, context);

    torch::manual_seed(static_cast<uint64_t>(spec_.training.seed));
    auto model = make_node_model(
        spec_.model, {.in_channels = dataset.features().width(), .num_classes = dataset.num_classes}
    );
    model->to(context.device);
    GNN_ASSIGN_OR_RETURN(
        const auto workload,
        NodeWorkload::create(
            std::move(dataset),
            std::move(model),
            context.groups,
            {.sampling = *spec_.sampling,
             .training = spec_.training,
             .device = context.device,
             .num_cpus = context.num_cpus,
             .partitioned = partitioned_data(spec_, context)}
        )
    );
    GNN_ASSIGN_OR_RETURN(
        training::TrainingResult result, run_training(*workload, context, options)
    );
    GNN_ASSIGN_OR_RETURN(result.report.remote, workload->remote_summary(result.report.run_steps));
    GNN_RETURN_IF_ERROR(workload->leave());
    return finish(std::move(result.report), result.stopped, context);
  }

 private:
  api::GnnJobSpec spec_;
};

}  // namespace

Parsed<std::unique_ptr<TaskRun>> parse_node_classification(const api::GnnJobSpec& spec) {
  return std::make_unique<NodeClassification>(spec);
}

}  // namespace gnn::tasks
