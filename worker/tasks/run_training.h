#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/comm/communicator.h"
#include "worker/graph/dataset.h"
#include "worker/tasks/part_inputs.h"
#include "worker/tasks/task.h"
#include "worker/training/trainer.h"

#include <optional>
#include <string>

namespace gnn::tasks {

/// Loads the data set of a spec and checks that all ranks have the same. The contents of native files
/// are checked by check_on_node(). Collective.
/// Errors: those of graph::load_dataset(), check_on_node(), check_placement() and
/// check_same_dataset().
[[nodiscard]] Result<graph::Dataset> load_dataset(
    const api::GnnJobSpec& spec, TaskContext& context
);

/// Compares the digests of what the ranks have read. Collective.
/// Errors: Data naming ranks and digests, the same on all ranks; PeerLost.
[[nodiscard]] Status check_same_dataset(
    comm::Communicator& communicator, const graph::Dataset& dataset
);

/// How a rank reads its data, where nodes read from each other.
[[nodiscard]] std::optional<PartitionedData> partitioned_data(
    const api::GnnJobSpec& spec, TaskContext& context
);

/// Hash of everything in a spec that a run's numbers depend on. Machines, where data lies and when
/// training ends are not part of it; the number of epochs is where the learning rate depends on it.
[[nodiscard]] std::string config_hash(const api::GnnJobSpec& spec);

/// The trainer's options that a spec asks for.
[[nodiscard]] training::TrainerOptions trainer_options(
    const api::GnnJobSpec& spec, const graph::Dataset& dataset, const TaskContext& context
);

/// Lets the record of a run tell of its data set, on rank 0 and where there are checkpoints.
/// `description`: a line about it.
void record_data(
    training::TrainerOptions& options,
    const api::GnnJobSpec& spec,
    const graph::Dataset& dataset,
    const std::string& description,
    const TaskContext& context
);

/// Runs training::train() with what the task was given. Collective.
[[nodiscard]] Result<training::TrainingResult> run_training(
    training::Workload& workload, TaskContext& context, const training::TrainerOptions& options
);

/// Reports the end of the task and returns its result.
[[nodiscard]] TaskResult finish(progress::FinalReport report, bool stopped, TaskContext& context);

/// A line for the log: "cora: 2,708 nodes, 10,556 edges, 1,433 features, 7 classes; 140 training,
/// 500 validation and 1,000 test items". Of a partitioned data set it has the number of partitions
/// instead of edges, so that it is the same for the whole set and for a part of it.
[[nodiscard]] std::string describe(const graph::Dataset& dataset);

/// 1234567 as "1,234,567".
[[nodiscard]] std::string grouped(int64_t number);

}  // namespace gnn::tasks
