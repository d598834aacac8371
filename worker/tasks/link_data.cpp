#include "worker/tasks/link_data.h"

#include "worker/tasks/link_graph.h"
#include "worker/tasks/run_training.h"

#include <utility>

namespace gnn::tasks {
namespace {

// Half of this rank's part of the memory that the ranks of a node share: the data set, the model and
// the batches take the rest.
int64_t memory_to_join(const TaskContext& context) {
  return context.memory_bytes / context.groups.node->world_size() / 2;
}

}  // namespace

Result<SplitDataset> open_link_data(const api::GnnJobSpec& spec, TaskContext& context) {
  GNN_ASSIGN_OR_RETURN(graph::Dataset dataset, load_dataset(spec, context));
  const LinkSplitOptions wanted = link_split_options(spec);
  if (const auto& partitions = dataset.partitions;
      partitions && partitions->link_split && !has_split(dataset, wanted)) {
    context.progress.on_message(
        dataset.name + ": its links were split by " +
        data::describe(partitions->link_split->options) + " when it was partitioned; " +
        "spec.dataset.split says " + data::describe(wanted) + ", so they are split anew"
    );
  }
  GNN_ASSIGN_OR_RETURN(LinkSplit split, split_links_of(dataset, spec));
  if (spec.dataset.co_occurrence) {
    GNN_RETURN_IF_ERROR(add_co_occurrence(
        dataset,
        *spec.dataset.co_occurrence,
        split,
        {.num_threads = context.num_cpus, .memory_bytes = memory_to_join(context)},
        context.loading
    ));
  }
  return SplitDataset{.dataset = std::move(dataset), .split = std::move(split)};
}

std::string describe(const SplitDataset& data) {
  const graph::Dataset& dataset = data.dataset;
  std::string text = dataset.name + ": ";
  for (const graph::NodeTypeData& type : dataset.node_types)
    text += grouped(type.num_nodes) + " nodes of type " + type.name + ", ";
  for (const graph::EdgeTypeData& type : dataset.edge_types) {
    text += dataset.partitions ? "edges " : grouped(type.graph.num_edges()) + " edges ";
    text += graph::text_of(type) + ", ";
  }
  // Of a part that was extracted, the edges of the others are not known.
  if (dataset.partitions) text += grouped(dataset.partitions->book.parts) + " partitions, ";
  return text + grouped(data.split.train.numel()) + " training, " +
         grouped(data.split.validation.numel()) + " validation and " +
         grouped(data.split.test.numel()) + " test links";
}

uint64_t split_seed_of(const api::GnnJobSpec& spec) {
  return static_cast<uint64_t>(spec.dataset.split.seed.value_or(spec.training.seed));
}

Result<LinkWidths> link_widths_of(const DataDescription& data, const api::Model& model) {
  LinkWidths widths;
  int64_t tables = 0;
  for (const DescribedNodes& type : data.nodes) {
    if (model.type == api::ModelType::BipartiteSAGE) {
      widths.tables.push_back(tables++);
      widths.of_inputs.push_back(model.bipartite_sage->hidden_channels);
      continue;
    }
    if (type.width < 0) {
      return fail(
          ErrorKind::Data,
          data.name + ": expected features of node type " + type.name + ", which " +
              "spec.model.type GraphSAGE reads, the data set has none"
      );
    }
    widths.tables.push_back(-1);
    widths.of_inputs.push_back(type.width);
  }
  return widths;
}

}  // namespace gnn::tasks
