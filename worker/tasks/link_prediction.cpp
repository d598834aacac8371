#include "worker/tasks/link_prediction.h"

#include "worker/data/number_text.h"
#include "worker/embedding/embeddings.h"
#include "worker/tasks/data_description.h"
#include "worker/tasks/device_plan.h"
#include "worker/tasks/device_rows.h"
#include "worker/tasks/device_sampling.h"
#include "worker/tasks/job_servers.h"
#include "worker/tasks/link_data.h"
#include "worker/tasks/link_workload.h"
#include "worker/tasks/models.h"
#include "worker/tasks/run_training.h"
#include "worker/training/trainer.h"

#include <torch/utils.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace gnn::tasks {
namespace {

// What a rank trains on: a data set of its own, or that of servers.
struct LinkInput {
  std::optional<SplitDataset> split;
  std::shared_ptr<JobServers> servers;
  DataDescription data;

  [[nodiscard]] const DescribedEdges& link() const {
    return data.edges[static_cast<size_t>(*data.link)];
  }
};

Result<LinkInput> open(const api::GnnJobSpec& spec, TaskContext& context) {
  LinkInput input;
  if (spec.servers) {
    GNN_ASSIGN_OR_RETURN(input.servers, JobServers::open(spec, context));
    input.data = input.servers->data();
    if (input.data.link) return input;
    return fail(ErrorKind::Data, input.data.name + ": expected servers of links, found none");
  }
  GNN_ASSIGN_OR_RETURN(input.split, open_link_data(spec, context));
  input.data = describe_data(input.split->dataset);
  input.data.text = describe(*input.split);
  return input;
}

// One for each node type that has no features to be read.
std::vector<embedding::TableOptions> tables_of(
    const DataDescription& data, const LinkWidths& widths
) {
  std::vector<embedding::TableOptions> tables;
  for (size_t type = 0; type < widths.tables.size(); ++type) {
    if (widths.tables[type] < 0) continue;
    tables.push_back(
        {.name = data.nodes[type].name,
         .rows = data.nodes[type].num_nodes,
         .width = widths.of_inputs[type]}
    );
  }
  return tables;
}

class LinkPrediction final : public TaskRun {
 public:
  explicit LinkPrediction(api::GnnJobSpec spec) : spec_(std::move(spec)) {}

  Result<TaskResult> run(TaskContext& context) override {
    context.progress.on_phase(progress::Phase::Setup);
    GNN_ASSIGN_OR_RETURN(device_graph_, device_graph_of(spec_, context.device));
    GNN_ASSIGN_OR_RETURN(LinkInput input, open(spec_, context));
    context.progress.on_message(input.data.text);
    const graph::Dataset types = types_of(input.data);
    training::TrainerOptions options = trainer_options(spec_, types, context);
    options.dataset_digest += split_text();
    if (input.split) record_data(options, spec_, input.split->dataset, input.data.text, context);

    torch::manual_seed(static_cast<uint64_t>(spec_.training.seed));
    GNN_ASSIGN_OR_RETURN(const LinkWidths widths, link_widths_of(input.data, spec_.model));
    GNN_ASSIGN_OR_RETURN(
        auto model,
        make_link_model(
            spec_.model, {.dataset = types, .link = *input.data.link, .widths = widths.of_inputs}
        )
    );
    model->to(context.device);
    GNN_ASSIGN_OR_RETURN(LinkInputs inputs, make_inputs(input.data, widths, context));
    GNN_ASSIGN_OR_RETURN(
        const auto workload,
        make_workload(std::move(input), std::move(model), std::move(inputs), context)
    );
    GNN_ASSIGN_OR_RETURN(
        training::TrainingResult result, run_training(*workload, context, options)
    );
    GNN_ASSIGN_OR_RETURN(result.report.remote, workload->remote_summary(result.report));
    GNN_RETURN_IF_ERROR(workload->leave());
    return finish(std::move(result.report), result.stopped, context);
  }

 private:
  // Part of what a model was trained on: under another split, a checkpoint that is resumed from would
  // be measured on links that it was trained on.
  [[nodiscard]] std::string split_text() const {
    const api::Split& split = spec_.dataset.split;
    const auto share = [](const std::optional<api::Decimal>& decimal) {
      return decimal ? data::number_text(decimal->value()) : std::string("none");
    };
    return ", split by seed " + std::to_string(split_seed_of(spec_)) + ", validation " +
           share(split.validation) + ", test " + share(split.test);
  }

  Result<LinkInputs> make_inputs(
      const DataDescription& data, const LinkWidths& widths, TaskContext& context
  ) const {
    LinkInputs inputs{.embeddings = std::nullopt, .tables = widths.tables};
    const std::vector<embedding::TableOptions> tables = tables_of(data, widths);
    if (tables.empty()) return inputs;
    GNN_ASSIGN_OR_RETURN(
        inputs.embeddings,
        embedding::Embeddings::create(
            {.tables = tables,
             .update = spec_.training.embeddings.value_or(api::Embeddings{}).update,
             .optimizer = spec_.training.optimizer,
             .seed = spec_.training.seed,
             .device = context.device},
            *context.communicator
        )
    );
    return inputs;
  }

  Result<std::unique_ptr<LinkWorkload>> make_workload(
      LinkInput input, std::shared_ptr<nn::LinkModel> model, LinkInputs inputs, TaskContext& context
  ) const {
    LinkWorkloadOptions options{
        .sampling = *spec_.sampling,
        .training = spec_.training,
        .split_seed = split_seed_of(spec_),
        .device = context.device,
        .num_cpus = context.num_cpus,
        .device_graph = device_graph_,
    };
    if (input.split) {
      if (auto data = partitioned_data(spec_, context))
        options.partitioned.emplace(*std::move(data));
      GNN_RETURN_IF_ERROR(plan_for(
          {.spec = spec_,
           .dataset = input.split->dataset,
           .features = types_with_features(inputs),
           .edge_types = model->reads(),
           .model_parameters = num_parameters(*model),
           .evaluates = input.split->split.validation.numel() + input.split->split.test.numel() > 0
          },
          context
      ));
      GNN_ASSIGN_OR_RETURN(const auto gathering, device_features(spec_, context));
      if (gathering) options.device_features.emplace(*gathering);
      if (gathering && options.partitioned)
        options.partitioned->device_features.emplace(*gathering);
      return LinkWorkload::create(
          std::move(*input.split), std::move(model), std::move(inputs), context.groups, options
      );
    }
    const LinkTypes ends{
        .source_type = input.link().source_index, .destination_type = input.link().destination_index
    };
    GNN_ASSIGN_OR_RETURN(
        auto batches,
        AskedBatches<loader::LinkMiniBatch>::create(
            std::move(input.servers), served_options(spec_, context, &link_item_options)
        )
    );
    return LinkWorkload::create(
        std::move(batches), ends, std::move(model), std::move(inputs), context.groups, options
    );
  }

  api::GnnJobSpec spec_;
  std::shared_ptr<sampling::device::DeviceGraph> device_graph_;  // null where CPUs sample
};

}  // namespace

Parsed<std::unique_ptr<TaskRun>> parse_link_prediction(const api::GnnJobSpec& spec) {
  return std::make_unique<LinkPrediction>(spec);
}

}  // namespace gnn::tasks
