#include "worker/tasks/node_classification.h"

#include "worker/tasks/class_weights.h"
#include "worker/tasks/data_description.h"
#include "worker/tasks/device_plan.h"
#include "worker/tasks/device_rows.h"
#include "worker/tasks/device_sampling.h"
#include "worker/tasks/job_servers.h"
#include "worker/tasks/models.h"
#include "worker/tasks/node_data.h"
#include "worker/tasks/node_workload.h"
#include "worker/tasks/run_training.h"
#include "worker/training/predictions.h"
#include "worker/training/trainer.h"

#include <torch/utils.h>

#include <memory>
#include <optional>
#include <utility>

namespace gnn::tasks {
namespace {

// What a rank trains on: a data set of its own, or that of servers.
struct NodeInput {
  std::optional<graph::Dataset> dataset;
  std::shared_ptr<JobServers> servers;
  DataDescription data;
};

Result<NodeInput> open(const api::GnnJobSpec& spec, TaskContext& context) {
  NodeInput input;
  if (spec.servers) {
    GNN_ASSIGN_OR_RETURN(input.servers, JobServers::open(spec, context));
    input.data = input.servers->data();
    if (input.data.nodes.size() == 1 && input.data.nodes.front().width >= 0) return input;
    return fail(
        ErrorKind::Data,
        input.data.name + ": expected servers of one node type with features, found others"
    );
  }
  GNN_ASSIGN_OR_RETURN(input.dataset, open_node_data(spec, context));
  input.data = describe_data(*input.dataset);
  input.data.text = describe(*input.dataset);
  return input;
}

class NodeClassification final : public TaskRun {
 public:
  explicit NodeClassification(api::GnnJobSpec spec) : spec_(std::move(spec)) {}

  Result<TaskResult> run(TaskContext& context) override {
    context.progress.on_phase(progress::Phase::Setup);
    GNN_ASSIGN_OR_RETURN(device_graph_, device_graph_of(spec_, context.device));
    GNN_RETURN_IF_ERROR(open_predictions(context));
    GNN_ASSIGN_OR_RETURN(NodeInput input, open(spec_, context));
    context.progress.on_message(input.data.text);
    if (predictions_ != nullptr)
      GNN_RETURN_IF_ERROR(predictions_->choose_nodes(input.dataset->target().num_nodes));
    training::TrainerOptions options = trainer_options(spec_, types_of(input.data), context);
    if (input.dataset) record_data(options, spec_, *input.dataset, input.data.text, context);

    torch::manual_seed(static_cast<uint64_t>(spec_.training.seed));
    auto model = make_node_model(
        spec_.model,
        {.in_channels = input.data.nodes.front().width, .num_classes = input.data.num_classes}
    );
    model->to(context.device);
    GNN_ASSIGN_OR_RETURN(
        const auto workload, make_workload(std::move(input), std::move(model), context)
    );
    GNN_ASSIGN_OR_RETURN(
        training::TrainingResult result, run_training(*workload, context, options)
    );
    GNN_ASSIGN_OR_RETURN(result.report.remote, workload->remote_summary(result.report));
    GNN_RETURN_IF_ERROR(workload->leave());
    return finish(std::move(result.report), result.stopped, context);
  }

 private:
  [[nodiscard]] bool evaluates_by_sampling(const graph::DataSplit& split) const {
    const api::Evaluation& evaluation = spec_.training.evaluation;
    return evaluation.mode == api::EvaluationMode::Sampled &&
           (evaluation.parts || split.validation.numel() + split.test.numel() > 0);
  }

  Status open_predictions(TaskContext& context) {
    const auto options = training::predictions_options(spec_);
    if (!options) return {};
    GNN_ASSIGN_OR_RETURN(
        training::Predictions opened,
        training::Predictions::open(
            *options, context.communicator, std::make_shared<checkpoint::PosixFileOps>()
        )
    );
    predictions_ = std::make_shared<training::Predictions>(std::move(opened));
    return {};
  }

  Result<std::unique_ptr<NodeWorkload>> make_workload(
      NodeInput input, std::shared_ptr<nn::NodeModel> model, TaskContext& context
  ) const {
    LabelledItems items{.labels = {}, .training_items = {}, .num_classes = input.data.num_classes};
    if (input.dataset) {
      items.labels = input.dataset->target().labels;
      items.training_items = input.dataset->split.train;
    }
    GNN_ASSIGN_OR_RETURN(
        const at::Tensor weights, class_weights_of(spec_.training.class_weights, items)
    );
    NodeWorkloadOptions options{
        .sampling = *spec_.sampling,
        .training = spec_.training,
        .class_weights = weights,
        .device = context.device,
        .num_cpus = context.num_cpus,
        .device_graph = device_graph_,
        .predictions = predictions_,
        .config_hash = config_hash(spec_),
    };
    if (input.dataset) {
      if (auto data = partitioned_data(spec_, context))
        options.partitioned.emplace(*std::move(data));
      GNN_RETURN_IF_ERROR(plan_for(
          {.spec = spec_,
           .dataset = *input.dataset,
           .features = {true},
           .model_parameters = num_parameters(*model),
           .evaluates = evaluates_by_sampling(input.dataset->split)},
          context
      ));
      GNN_ASSIGN_OR_RETURN(const auto gathering, device_features(spec_, context));
      if (gathering) options.device_features.emplace(*gathering);
      if (gathering && options.partitioned)
        options.partitioned->device_features.emplace(*gathering);
      return NodeWorkload::create(
          std::move(*input.dataset), std::move(model), context.groups, options
      );
    }
    GNN_ASSIGN_OR_RETURN(
        auto batches,
        AskedBatches<loader::MiniBatch>::create(
            std::move(input.servers), served_options(spec_, context, &item_options)
        )
    );
    return NodeWorkload::create(std::move(batches), std::move(model), context.groups, options);
  }

  api::GnnJobSpec spec_;
  std::shared_ptr<sampling::device::DeviceGraph> device_graph_;  // null where CPUs sample
  std::shared_ptr<training::Predictions> predictions_;           // null without spec.predictions
};

}  // namespace

Parsed<std::unique_ptr<TaskRun>> parse_node_classification(const api::GnnJobSpec& spec) {
  return std::make_unique<NodeClassification>(spec);
}

}  // namespace gnn::tasks
