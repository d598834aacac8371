#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/graph/dataset.h"
#include "worker/graph/load.h"
#include "worker/tasks/task.h"
#include "worker/training/trainer.h"

#include <string>

namespace gnn::tasks {

/// How the data set of a spec is loaded.
[[nodiscard]] graph::LoadOptions load_options(const api::GnnJobSpec& spec);

/// Names everything in a spec that a run's numbers depend on, whatever machines it runs on and for
/// how many epochs.
[[nodiscard]] std::string config_hash(const api::GnnJobSpec& spec);

[[nodiscard]] training::TrainerOptions trainer_options(
    const api::GnnJobSpec& spec, const TaskContext& context
);

[[nodiscard]] Result<training::TrainingOutcome> run_training(
    training::Workload& workload, TaskContext& context, const training::TrainerOptions& options
);

/// Reports the end and gives the outcome.
[[nodiscard]] TaskOutcome finish(training::FinalReport report, bool stopped, TaskContext& context);

/// "cora: 2,708 nodes, 10,556 edges, 1,433 features, 7 classes; 140 training, 500 validation and
/// 1,000 test items".
[[nodiscard]] std::string describe(const graph::Dataset& dataset);

}  // namespace gnn::tasks
