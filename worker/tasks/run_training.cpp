#include "worker/tasks/run_training.h"

#include "common/api/codec.h"
#include "common/api/enums.h"
#include "common/hash.h"
#include "common/stopwatch.h"
#include "worker/graph/load.h"
#include "worker/tasks/data_path.h"
#include "worker/tasks/data_record.h"
#include "worker/tasks/node_check.h"
#include "worker/tasks/placement.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <utility>

namespace gnn::tasks {
namespace {

std::string loaded_in(double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, "Loaded the data set in %.3f s", seconds);
  return text;
}

// Of mapped files a node reads nothing but its part of what is Partitioned.
graph::PartCheck part_to_check(const api::GnnJobSpec& spec, const TaskContext& context) {
  graph::PartCheck check;
  if (!spec.placement) return check;
  const comm::RankGroups& groups = context.groups;
  const int64_t node = groups.all->rank() / groups.node->world_size();
  const int64_t part = context.server.value_or(node) % spec.placement->partitions;
  if (spec.placement->topology == api::PlacementMode::Partitioned) check.lists = part;
  if (spec.placement->features == api::PlacementMode::Partitioned) check.features = part;
  return check;
}

// Whether a native data set's lists and split are those in its files.
bool is_as_it_was(const api::Dataset& dataset) {
  return dataset.split.type == api::SplitType::Provided && !dataset.to_undirected &&
         !dataset.coalesce && !dataset.add_self_loops && !dataset.add_reverse;
}

}  // namespace

Status check_same_dataset(comm::Communicator& communicator, const graph::Dataset& dataset) {
  GNN_ASSIGN_OR_RETURN(const auto digests, comm::all_gather_bytes(communicator, dataset.digest));
  const std::string differences = comm::describe_differences(digests);
  if (differences.empty()) return {};
  return fail(
      ErrorKind::Data,
      "spec.dataset: expected the same data set " + dataset.name +
          " on all ranks, found the digest " + differences +
          "; copy one to all machines, or use a volume that they share"
  );
}

Result<graph::Dataset> load_dataset(const api::GnnJobSpec& spec, TaskContext& context) {
  graph::LoadOptions options;
  options.training_seed = spec.training.seed;
  options.memory_bytes = context.memory_bytes;
  if (const std::optional<api::EdgeType>& link = spec.task.link)
    options.link = {link->source, link->relation, link->destination};
  options.add_reverse = spec.dataset.add_reverse;
  options.accept_part = spec.placement.has_value();
  options.part = part_to_check(spec, context);
  options.check_mapped = [&context](const std::string& version, const graph::ContentCheck& check) {
    const NodeCheck node{
        .node = *context.groups.node,
        .progress = context.loading,
        .checked_version = context.checked_version
    };
    return check_on_node(node, version, check);
  };
  const auto start = std::chrono::steady_clock::now();
  GNN_ASSIGN_OR_RETURN(
      graph::Dataset dataset, graph::load_dataset(spec.dataset, options, context.loading)
  );
  if (context.on_checked_version && !dataset.checked_version.empty())
    context.on_checked_version(dataset.checked_version);
  GNN_RETURN_IF_ERROR(check_placement(spec, dataset, context.groups, context.server));
  GNN_RETURN_IF_ERROR(check_same_dataset(*context.communicator, dataset));
  context.progress.on_message(loaded_in(seconds_since(start)));
  return dataset;
}

std::optional<PartitionedData> partitioned_data(const api::GnnJobSpec& spec, TaskContext& context) {
  if (!is_partitioned(spec.placement)) return std::nullopt;
  return PartitionedData{
      .placement = *spec.placement,
      .network =
          {.endpoint = context.data_endpoint,
           .incarnation = context.incarnation,
           .partitions = spec.placement->partitions,
           .server_threads = loading_threads(context.num_cpus, c10::kCPU),
           .peer_timeout = std::chrono::seconds(spec.training.timeouts.peer_seconds)},
      .loading = context.loading,
      .as_partitioned = is_as_it_was(spec.dataset),
      .num_cpus = context.num_cpus,
      .memory_bytes = context.memory_bytes,
      .progress = &context.progress,
  };
}

std::string config_hash(const api::GnnJobSpec& spec) {
  nlohmann::json json = api::encode(spec);
  for (const char* name :
       {"suspend",
        "managedBy",
        "features",
        "placement",
        "workers",
        "servers",
        "prepare",
        "checkpoint",
        "export",
        "predictions",
        "tracking",
        "runPolicy",
        "scheduling"})
    json.erase(name);
  if (json.contains("sampling")) {
    for (const char* name : {"concurrency", "prefetch", "channelSize", "device", "topologyMemory"})
      json["sampling"].erase(name);
  }
  for (const char* name : {"evaluation", "timeouts", "device", "logSteps", "earlyStopping"})
    json["training"].erase(name);
  if (spec.training.precision == api::Precision::Float32) json["training"].erase("precision");
  // Where a cosine falls to depends on how long it is.
  const std::optional<api::LearningRateSchedule>& schedule = spec.training.optimizer.schedule;
  if (!schedule || schedule->type != api::ScheduleType::Cosine) json["training"].erase("epochs");
  return std::to_string(fnv1a(json.dump()));
}

training::TrainerOptions trainer_options(
    const api::GnnJobSpec& spec, const graph::Dataset& dataset, const TaskContext& context
) {
  return {
      .training = spec.training,
      .checkpoint = spec.checkpoint,
      .model_export = training::export_options(spec),
      .incarnation = context.incarnation,
      .config_hash = config_hash(spec),
      .dataset_digest = dataset.digest,
      .num_classes = spec.task.type == api::TaskType::LinkPrediction ? 0 : dataset.num_classes,
      .facts =
          {.job = context.job,
           .task = std::string(api::to_string(spec.task.type)),
           .model = std::string(api::to_string(spec.model.type)),
           .dataset = dataset.name},
  };
}

void record_data(
    training::TrainerOptions& options,
    const api::GnnJobSpec& spec,
    const graph::Dataset& dataset,
    const std::string& description,
    const TaskContext& context
) {
  if (!options.checkpoint || context.communicator->rank() != 0) return;
  options.data = data_record_of(dataset, part_to_check(spec, context).lists);
  options.data->description = description;
}

Result<training::TrainingResult> run_training(
    training::Workload& workload, TaskContext& context, const training::TrainerOptions& options
) {
  training::TrainerContext trainer{
      .communicator = context.communicator,
      .device = context.device,
      .progress = context.progress,
      .stop = context.stop,
  };
  return training::train(workload, trainer, options);
}

TaskResult finish(progress::FinalReport report, bool stopped, TaskContext& context) {
  context.progress.on_phase(progress::Phase::Done);
  context.progress.on_final(report);
  return {.report = std::move(report), .stopped = stopped};
}

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (auto place = static_cast<int64_t>(text.size()) - 3; place > 0; place -= 3) {
    text.insert(static_cast<size_t>(place), ",");
  }
  return text;
}

std::string describe(const graph::Dataset& dataset) {
  std::string text = dataset.name + ": ";
  if (dataset.graphs) text += grouped(dataset.graphs->num_graphs()) + " graphs, ";
  text += grouped(dataset.target().num_nodes) + " nodes, ";
  // Of a part that was extracted, the edges of the others are not known.
  text += dataset.partitions ? grouped(dataset.partitions->book.parts) + " partitions"
                             : grouped(dataset.graph().num_edges()) + " edges";
  if (dataset.target().features) text += ", " + grouped(dataset.features().width()) + " features";
  text += ", " + grouped(dataset.num_classes) + " classes; " +
          grouped(dataset.split.train.numel()) + " training, " +
          grouped(dataset.split.validation.numel()) + " validation and " +
          grouped(dataset.split.test.numel()) + " test items";
  return text;
}

}  // namespace gnn::tasks
