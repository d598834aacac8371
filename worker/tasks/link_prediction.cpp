#include "worker/tasks/link_prediction.h"

#include "worker/embedding/embeddings.h"
#include "worker/tasks/link_graph.h"
#include "worker/tasks/link_workload.h"
#include "worker/tasks/models.h"
#include "worker/tasks/run_training.h"
#include "worker/training/trainer.h"

#include <torch/utils.h>

#include <optional>
#include <string>
#include <utility>

namespace gnn::tasks {
namespace {

// The ends' embeddings of a BipartiteSAGE; a GraphSAGE reads features.
struct Widths {
  std::vector<int64_t> of_inputs;             // per node type
  std::vector<int64_t> tables;                // as LinkInputs::tables
  std::vector<embedding::TableOptions> made;  // the tables
};

Result<Widths> widths_of(const graph::Dataset& dataset, const api::Model& model) {
  Widths widths;
  for (const graph::NodeTypeData& type : dataset.node_types) {
    if (model.type == api::ModelType::BipartiteSAGE) {
      widths.tables.push_back(static_cast<int64_t>(widths.made.size()));
      widths.of_inputs.push_back(model.bipartite_sage->hidden_channels);
      widths.made.push_back(
          {.name = type.name, .rows = type.num_nodes, .width = widths.of_inputs.back()}
      );
      continue;
    }
    if (!type.features) {
      return fail(
          ErrorKind::Data,
          dataset.name + ": expected features of node type " + type.name + ", which " +
              "spec.model.type GraphSAGE reads, the data set has none"
      );
    }
    widths.tables.push_back(-1);
    widths.of_inputs.push_back(type.features->width());
  }
  return widths;
}

// Half of this rank's part of the memory that the ranks of a node share: the data set, the model and
// the batches take the rest.
int64_t memory_to_join(const TaskContext& context) {
  return context.memory_bytes / context.groups.node->world_size() / 2;
}

std::string describe(const SplitDataset& data) {
  const graph::Dataset& dataset = data.dataset;
  std::string text = dataset.name + ": ";
  for (const graph::NodeTypeData& type : dataset.node_types)
    text += grouped(type.num_nodes) + " nodes of type " + type.name + ", ";
  for (const graph::EdgeTypeData& type : dataset.edge_types)
    text += grouped(type.graph.num_edges()) + " edges " + graph::text_of(type) + ", ";
  return text + grouped(data.split.train.numel()) + " training, " +
         grouped(data.split.validation.numel()) + " validation and " +
         grouped(data.split.test.numel()) + " test links";
}

class LinkPrediction final : public TaskRun {
 public:
  explicit LinkPrediction(api::GnnJobSpec spec) : spec_(std::move(spec)) {}

  Result<TaskResult> run(TaskContext& context) override {
    context.progress.on_phase(progress::Phase::Setup);
    GNN_ASSIGN_OR_RETURN(SplitDataset data, open(context));
    context.progress.on_message(describe(data));
    training::TrainerOptions options = trainer_options(spec_, data.dataset, context);
    options.dataset_digest += split_text();

    torch::manual_seed(static_cast<uint64_t>(spec_.training.seed));
    GNN_ASSIGN_OR_RETURN(const Widths widths, widths_of(data.dataset, spec_.model));
    GNN_ASSIGN_OR_RETURN(
        const auto model,
        make_link_model(
            spec_.model,
            {.dataset = data.dataset,
             .link = data.dataset.links->edge_type,
             .widths = widths.of_inputs}
        )
    );
    model->to(context.device);
    GNN_ASSIGN_OR_RETURN(LinkInputs inputs, make_inputs(widths, context));
    GNN_ASSIGN_OR_RETURN(
        const auto workload,
        LinkWorkload::create(
            std::move(data),
            model,
            std::move(inputs),
            context.groups,
            {.sampling = *spec_.sampling,
             .training = spec_.training,
             .split_seed = split_seed(),
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
  [[nodiscard]] uint64_t split_seed() const {
    return static_cast<uint64_t>(spec_.dataset.split.seed.value_or(spec_.training.seed));
  }

  // Part of what a model was trained on: under another split, a checkpoint that is resumed from would
  // be measured on links that it was trained on.
  [[nodiscard]] std::string split_text() const {
    const api::Split& split = spec_.dataset.split;
    const auto share = [](const std::optional<api::Decimal>& decimal) {
      return decimal ? std::to_string(decimal->value()) : std::string("none");
    };
    return ", split by seed " + std::to_string(split_seed()) + ", validation " +
           share(split.validation) + ", test " + share(split.test);
  }

  // The data set, split, with the edge types that are made of the training links.
  Result<SplitDataset> open(TaskContext& context) const {
    GNN_ASSIGN_OR_RETURN(graph::Dataset dataset, load_dataset(spec_, context));
    GNN_ASSIGN_OR_RETURN(LinkSplit split, split_links_of(dataset, spec_));
    if (spec_.dataset.co_occurrence) {
      GNN_RETURN_IF_ERROR(add_co_occurrence(
          dataset,
          *spec_.dataset.co_occurrence,
          split,
          {.num_threads = context.num_cpus, .memory_bytes = memory_to_join(context)},
          context.loading
      ));
    }
    return SplitDataset{.dataset = std::move(dataset), .split = std::move(split)};
  }

  Result<LinkInputs> make_inputs(const Widths& widths, TaskContext& context) const {
    LinkInputs inputs{.embeddings = std::nullopt, .tables = widths.tables};
    if (widths.made.empty()) return inputs;
    GNN_ASSIGN_OR_RETURN(
        inputs.embeddings,
        embedding::Embeddings::create(
            {.tables = widths.made,
             .update = spec_.training.embeddings.value_or(api::Embeddings{}).update,
             .optimizer = spec_.training.optimizer,
             .seed = spec_.training.seed,
             .device = context.device},
            *context.communicator
        )
    );
    return inputs;
  }

  api::GnnJobSpec spec_;
};

}  // namespace

Parsed<std::unique_ptr<TaskRun>> parse_link_prediction(const api::GnnJobSpec& spec) {
  return std::make_unique<LinkPrediction>(spec);
}

}  // namespace gnn::tasks
