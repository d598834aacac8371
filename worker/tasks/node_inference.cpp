#include "worker/tasks/node_inference.h"

#include "worker/tasks/items.h"
#include "worker/tasks/node_data.h"
#include "worker/tasks/node_predictions.h"
#include "worker/tasks/part_inputs.h"
#include "worker/tasks/run_training.h"
#include "worker/tasks/trained_model.h"
#include "worker/training/meters.h"
#include "worker/training/parameters_hash.h"
#include "worker/training/predictions.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

// What the ranks read from each other, where the data are partitioned. No batch is sampled, and each row is
// read once for each chunk that needs it: no cache is made for that.
Result<std::unique_ptr<PartInputs>> open_parts(
    const api::GnnJobSpec& spec, const graph::Dataset& dataset, TaskContext& context
) {
  auto data = partitioned_data(spec, context);
  if (!data) return std::unique_ptr<PartInputs>();
  data->placement.cache = api::FeatureCache{.policy = api::CachePolicy::None};
  const auto no_samplers = [](const shards::Part&) {
    return Result<std::vector<shards::SamplerSpec>>(std::vector<shards::SamplerSpec>());
  };
  return PartInputs::open(dataset, *data, no_samplers, {}, context.groups);
}

// The parts whose accuracy tells how good the predictions are.
std::vector<api::Part> measured_parts(const graph::Dataset& dataset) {
  std::vector<api::Part> parts;
  if (!dataset.target().labels.defined()) return parts;
  for (const api::Part part : {api::Part::Validation, api::Part::Test}) {
    if (items_of(dataset.split, part).numel() > 0) parts.push_back(part);
  }
  return parts;
}

class NodeInference final : public TaskRun {
 public:
  explicit NodeInference(api::GnnJobSpec spec) : spec_(std::move(spec)) {}

  Result<TaskResult> run(TaskContext& context) override {
    training::LapTimer timer;
    context.progress.on_phase(progress::Phase::Setup);
    const auto files = std::make_shared<checkpoint::PosixFileOps>();
    // What can be wrong without the data set is said before it is read.
    GNN_ASSIGN_OR_RETURN(
        training::Predictions predictions,
        training::Predictions::open(
            *training::predictions_options(spec_), context.communicator, files
        )
    );
    GNN_ASSIGN_OR_RETURN(
        const TrainedModel trained, TrainedModel::read(spec_, *context.communicator, *files)
    );
    GNN_ASSIGN_OR_RETURN(const graph::Dataset dataset, open_node_data(spec_, context));
    context.progress.on_message(describe(dataset));
    GNN_RETURN_IF_ERROR(predictions.choose_nodes(dataset.target().num_nodes));
    GNN_ASSIGN_OR_RETURN(const auto model, make_model(trained, dataset, context));
    context.progress.on_message("Read the model of " + trained.source());
    progress::FinalReport report = report_of(*model);
    const std::vector<api::Part> parts = measured_parts(dataset);
    GNN_ASSIGN_OR_RETURN(const auto own_part, open_parts(spec_, dataset, context));
    GNN_ASSIGN_OR_RETURN(
        const training::EvaluatedParts evaluated,
        predict(
            predictions,
            {*model, dataset, config_hash(spec_), parts, context.device, own_part.get()},
            context
        )
    );
    if (own_part != nullptr) GNN_RETURN_IF_ERROR(own_part->leave());
    for (size_t i = 0; evaluated && i < parts.size(); ++i) put(report, parts[i], (*evaluated)[i]);
    report.preempted = !evaluated;
    report.seconds = timer.lap();
    return finish(std::move(report), !evaluated, context);
  }

 private:
  static Result<training::EvaluatedParts> predict(
      training::Predictions& predictions, const PredictedGraph& predicted, TaskContext& context
  ) {
    const at::NoGradGuard no_grad;
    return write_predictions(
        predictions, predicted, context.groups, {.stop = context.stop, .progress = context.progress}
    );
  }

  static Result<std::shared_ptr<nn::NodeModel>> make_model(
      const TrainedModel& trained, const graph::Dataset& dataset, TaskContext& context
  ) {
    const bool labelled = dataset.target().labels.defined();
    GNN_ASSIGN_OR_RETURN(
        const std::shared_ptr<torch::nn::Module> module,
        trained.make(
            {.first = dataset.features().width(), .second = labelled ? dataset.num_classes : -1},
            *context.communicator
        )
    );
    auto model = std::dynamic_pointer_cast<nn::NodeModel>(module);
    GNN_ASSERT(model != nullptr, "validation allows models of nodes alone");
    model->to(context.device);
    model->eval();
    return model;
  }

  // Of a run in which nothing is trained.
  static progress::FinalReport report_of(const nn::NodeModel& model) {
    progress::FinalReport report;
    report.average_loss = std::numeric_limits<double>::quiet_NaN();
    std::vector<at::Tensor> values = model.parameters();
    for (const at::Tensor& buffer : model.buffers()) values.push_back(buffer);
    report.parameters_hash = training::hash_of(values);
    return report;
  }

  static void put(progress::FinalReport& report, api::Part part, const progress::Measure& measure) {
    report.metric = measure.metric;
    const char* const split = part == api::Part::Test ? "test_" : "validation_";
    report.metrics[split + measure.metric] = measure.value;
  }

  api::GnnJobSpec spec_;
};

}  // namespace

Parsed<std::unique_ptr<TaskRun>> parse_node_inference(const api::GnnJobSpec& spec) {
  return std::make_unique<NodeInference>(spec);
}

}  // namespace gnn::tasks
