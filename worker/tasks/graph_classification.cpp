#include "worker/tasks/graph_classification.h"

#include "worker/graph/load.h"
#include "worker/tasks/class_weights.h"
#include "worker/tasks/folds.h"
#include "worker/tasks/graph_workload.h"
#include "worker/tasks/models.h"
#include "worker/tasks/run_training.h"

#include <torch/utils.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace gnn::tasks {
namespace {

Result<graph::Dataset> open_prepared(const api::GnnJobSpec& spec, TaskContext& context) {
  GNN_ASSIGN_OR_RETURN(graph::Dataset dataset, load_dataset(spec, context));
  if (!dataset.target().features) {
    return fail(
        ErrorKind::Data,
        dataset.name +
            ": expected node features, the data set has none; set spec.dataset.nodeFeatures to "
            "Constant or DegreeOneHot"
    );
  }
  if (!dataset.graphs || !dataset.is_homogeneous()) {
    return fail(
        ErrorKind::Data,
        dataset.name +
            ": GraphClassification expects a set of graphs with one node and one edge type"
    );
  }
  return dataset;
}

class GraphClassification final : public TaskRun {
 public:
  explicit GraphClassification(api::GnnJobSpec spec) : spec_(std::move(spec)) {}

  Result<TaskResult> run(TaskContext& context) override {
    context.progress.on_phase(progress::Phase::Setup);
    GNN_ASSIGN_OR_RETURN(dataset_, open_prepared(spec_, context));
    const api::Split& split = spec_.dataset.split;
    if (split.type == api::SplitType::KFold && !split.fold) return run_folds(context);
    training::TrainerOptions options = trainer_options(spec_, dataset_, context);
    record_data(options, spec_, dataset_, describe(dataset_), context);
    GNN_ASSIGN_OR_RETURN(
        training::TrainingResult result, train_one(context, split.fold.value_or(0), options)
    );
    return finish(std::move(result.report), result.stopped, context);
  }

 private:
  Result<training::TrainingResult> train_one(
      TaskContext& context, int64_t fold, const training::TrainerOptions& options
  );
  Result<TaskResult> run_folds(TaskContext& context);

  api::GnnJobSpec spec_;
  graph::Dataset dataset_;
};

Result<training::TrainingResult> GraphClassification::train_one(
    TaskContext& context, int64_t fold, const training::TrainerOptions& options
) {
  graph::Dataset dataset = dataset_;
  api::Split split = spec_.dataset.split;
  if (split.type == api::SplitType::KFold) split.fold = fold;
  GNN_ASSIGN_OR_RETURN(dataset.split, graph::make_split(dataset, split, spec_.training.seed));
  context.progress.on_message(describe(dataset));
  GNN_ASSIGN_OR_RETURN(
      const at::Tensor weights,
      class_weights_of(
          spec_.training.class_weights,
          {.labels = dataset.graphs->labels,
           .training_items = dataset.split.train,
           .num_classes = dataset.num_classes}
      )
  );
  torch::manual_seed(static_cast<uint64_t>(spec_.training.seed));
  auto model = make_graph_model(
      spec_.model, {.in_channels = dataset.features().width(), .num_classes = dataset.num_classes}
  );
  model->to(context.device);
  GNN_ASSIGN_OR_RETURN(
      const auto workload,
      GraphWorkload::create(
          std::move(dataset),
          std::move(model),
          context.communicator,
          {.training = spec_.training,
           .class_weights = weights,
           .device = context.device,
           .num_cpus = context.num_cpus}
      )
  );
  return run_training(*workload, context, options);
}

// Makes the parent of the folds' folders, on rank 0, which alone writes. Its own parent must exist,
// as the mount point of a volume does. If this fails, the first fold's checkpoints or its export say
// why to all ranks.
void make_folder_of_folds(const std::string& path, const comm::Communicator& communicator) {
  if (communicator.rank() != 0) return;
  std::error_code ignored;
  std::filesystem::create_directory(path, ignored);
}

// Trains each fold in turn from fresh parameters. Every evaluation measures the test set too, so
// that an epoch can be chosen afterwards.
Result<TaskResult> GraphClassification::run_folds(TaskContext& context) {
  if (spec_.checkpoint) make_folder_of_folds(spec_.checkpoint->path, *context.communicator);
  if (spec_.model_export) make_folder_of_folds(spec_.model_export->path, *context.communicator);
  std::vector<training::TrainingResult> folds;
  for (int64_t fold = 0; fold < *spec_.dataset.split.folds; ++fold) {
    context.progress.on_message(
        "Fold " + std::to_string(fold + 1) + " of " + std::to_string(*spec_.dataset.split.folds)
    );
    training::TrainerOptions options = trainer_options(spec_, dataset_, context);
    record_data(options, spec_, dataset_, describe(dataset_), context);
    options.test_with_validation = true;
    const std::string folder = "/fold-" + std::to_string(fold);
    if (options.checkpoint) options.checkpoint->path += folder;
    if (options.model_export) options.model_export->path += folder;
    GNN_ASSIGN_OR_RETURN(training::TrainingResult result, train_one(context, fold, options));
    folds.push_back(std::move(result));
    if (folds.back().stopped) return finish(std::move(folds.back().report), true, context);
  }
  progress::FinalReport report = folds.back().report;
  report.metrics = fold_metrics(folds);
  report.test_model.clear();  // of several models
  report.best.reset();
  return finish(std::move(report), false, context);
}

}  // namespace

Parsed<std::unique_ptr<TaskRun>> parse_graph_classification(const api::GnnJobSpec& spec) {
  std::vector<api::FieldError> errors;
  const api::Split& split = spec.dataset.split;
  const bool all_folds = split.type == api::SplitType::KFold && !split.fold;
  if (all_folds && spec.checkpoint && spec.checkpoint->resume != "Auto" &&
      spec.checkpoint->resume != "Never") {
    errors.push_back(
        {.path = "spec.checkpoint.resume",
         .message = "must be Auto or Never where each fold is trained in turn: a checkpoint knows "
                    "the test items of all folds but its own; set spec.dataset.split.fold"}
    );
  }
  if (!errors.empty()) return tl::unexpected(std::move(errors));
  return std::make_unique<GraphClassification>(spec);
}

}  // namespace gnn::tasks
