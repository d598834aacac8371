#include "worker/tasks/link_graph.h"

#include "common/thread_pool.h"
#include "worker/data/array.h"
#include "worker/data/co_occurrence.h"
#include "worker/graph/load.h"
#include "worker/graph/part_order.h"
#include "worker/tasks/link_data.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace gnn::tasks {
namespace {

const graph::EdgeTypeData& type_at(const graph::Dataset& dataset, int64_t index) {
  return dataset.edge_types[static_cast<size_t>(index)];
}

const graph::EdgeTypeData& link_type(const graph::Dataset& dataset) {
  GNN_ASSERT(dataset.links.has_value(), "the task loads its data set with links");
  return type_at(dataset, dataset.links->edge_type);
}

// An array over a tensor's memory, which it keeps alive. Nobody writes to it.
data::Array array_over(std::string name, data::DType dtype, const at::Tensor& tensor) {
  auto owner = std::make_shared<at::Tensor>(tensor);
  auto* const data = const_cast<void*>(tensor.const_data_ptr());
  return {std::move(name), dtype, tensor.sizes().vec(), std::move(owner), data};
}

data::EdgeTable table_over(const graph::EdgeTypeData& type) {
  const graph::CscGraph& graph = type.graph;
  data::EdgeTable table;
  table.source = type.source;
  table.relation = type.relation;
  table.destination = type.destination;
  table.indptr = array_over("indptr", data::DType::Int64, graph.indptr());
  const bool narrow = graph.indices().scalar_type() == at::kInt;
  table.indices =
      array_over("indices", narrow ? data::DType::Int32 : data::DType::Int64, graph.indices());
  if (graph.edge_ids().defined())
    table.edge_ids = array_over("edge_ids", data::DType::Int64, graph.edge_ids());
  return table;
}

Status check(const graph::Dataset& dataset, const api::CoOccurrence& options) {
  const graph::EdgeTypeData& links = link_type(dataset);
  if (options.node != links.destination || options.through != links.source) {
    return fail(
        ErrorKind::Configuration,
        "spec.dataset.coOccurrence: expected node " + links.destination + " through " +
            links.source + ", the ends of the links, found " + options.node + " through " +
            options.through
    );
  }
  for (const graph::EdgeTypeData& type : dataset.edge_types) {
    if (type.source == options.node && type.destination == options.node) {
      return fail(
          ErrorKind::Configuration,
          "spec.dataset.coOccurrence: " + dataset.name + " has edges " + graph::text_of(type) +
              " already; remove the field to use them"
      );
    }
  }
  return {};
}

}  // namespace

Links links_of(const graph::Dataset& dataset) {
  const graph::EdgeTypeData& type = link_type(dataset);
  // Not the graph's: an extracted part has lists of its own nodes alone.
  const auto nodes_of = [&dataset](int64_t index) {
    return dataset.node_types[static_cast<size_t>(index)].num_nodes;
  };
  return {
      .pairs = dataset.links->pairs,
      .num_sources = nodes_of(type.source_index),
      .num_destinations = nodes_of(type.destination_index),
      .same_type = type.source_index == type.destination_index,
      .undirected = dataset.links->reverse_edge_type == dataset.links->edge_type,
  };
}

LinkSplitOptions link_split_options(const api::GnnJobSpec& spec) {
  const api::Split& split = spec.dataset.split;
  const auto value = [](const std::optional<api::Decimal>& decimal) {
    return decimal ? decimal->value() : 0;
  };
  return {
      .validation = value(split.validation),
      .test = value(split.test),
      .disjoint_train = value(split.disjoint_train),
      .negative_ratio = value(split.negative_ratio),  // absent with MRR, which has its own
      .seed = split_seed_of(spec)
  };
}

bool has_split(const graph::Dataset& dataset, const LinkSplitOptions& options) {
  return dataset.partitions && dataset.partitions->link_split &&
         dataset.partitions->link_split->options == options;
}

Result<LinkSplit> split_links_of(const graph::Dataset& dataset, const api::GnnJobSpec& spec) {
  const LinkSplitOptions options = link_split_options(spec);
  if (has_split(dataset, options)) return split_as_stored(*dataset.partitions->link_split);
  return split_links(links_of(dataset), options);
}

Status add_co_occurrence(
    graph::Dataset& dataset,
    const api::CoOccurrence& options,
    const LinkSplit& split,
    const CoOccurrenceLimits& limits,
    ProgressBar& progress
) {
  GNN_RETURN_IF_ERROR(check(dataset, options));
  const graph::EdgeTypeData& links = link_type(dataset);
  data::CoOccurrenceOptions counted{
      .num_sources = links.graph.num_sources(),
      .at_least = options.at_least,
      .memory_bytes = limits.memory_bytes
  };
  at::Tensor mask;
  if (options.edges == api::CoOccurrenceEdges::Train) {
    mask = split.parts.eq(static_cast<int64_t>(LinkPart::TrainMessages)).to(at::kByte).contiguous();
    counted.mask = {mask.const_data_ptr<uint8_t>(), static_cast<size_t>(mask.numel())};
  }
  ThreadPool pool(static_cast<size_t>(std::max<int64_t>(1, limits.num_threads)));
  data::MemoryStorage memory;
  data::DatasetArrays joined;
  joined.name = dataset.name;
  joined.target_node_type = links.destination;
  data::NodeTable nodes;
  nodes.name = links.destination;
  nodes.num_nodes = links.graph.num_destinations();
  joined.node_tables.push_back(std::move(nodes));
  auto table = data::co_occurrence(table_over(links), counted, pool, memory, progress);
  if (!table) {
    return tl::make_unexpected(with_context(table.error(), "spec.dataset"));
  }
  joined.edge_tables.push_back(*std::move(table));
  GNN_ASSIGN_OR_RETURN(graph::Dataset made, graph::make_dataset(joined, dataset.name));
  graph::EdgeTypeData type = std::move(made.edge_types.front());
  type.source_index = links.destination_index;
  type.destination_index = links.destination_index;
  dataset.edge_types.push_back(std::move(type));
  return {};
}

Result<LinkGraph> make_link_graph(
    const graph::Dataset& dataset, const std::vector<int64_t>& reads, const LinkSplit& split
) {
  LinkGraph made;
  for (const int64_t edge_type : reads) {
    const graph::EdgeTypeData& type = type_at(dataset, edge_type);
    const auto place = static_cast<int64_t>(made.relations.size());
    sampling::Relation relation{
        .graph = type.graph,
        .source_type = type.source_index,
        .destination_type = type.destination_index,
        .lane = edge_type,
    };
    if (edge_type == dataset.links->edge_type) made.forward = place;
    if (edge_type == dataset.links->reverse_edge_type) made.backward = place;
    std::vector<at::Tensor>& ends = made.ends.emplace_back();
    if (made.forward == place || made.backward == place) {
      GNN_ASSIGN_OR_RETURN(
          graph::PartOrder ordered, graph::order_by_part(type.graph, split.parts, kNumLinkParts)
      );
      relation.graph = std::move(ordered.graph);
      ends = std::move(ordered.ends);
    }
    made.relations.push_back(std::move(relation));
  }
  return made;
}

std::vector<sampling::Relation> visible_for(const LinkGraph& graph, api::Part part) {
  const auto last = [part] {
    switch (part) {
      case api::Part::Train:
        return LinkPart::TrainMessages;
      case api::Part::Validation:
        return LinkPart::TrainSupervision;
      case api::Part::Test:
        break;
    }
    return LinkPart::Validation;
  }();
  std::vector<sampling::Relation> visible = graph.relations;
  for (size_t i = 0; i < visible.size(); ++i) {
    if (!graph.ends[i].empty()) visible[i].ends = graph.ends[i][static_cast<size_t>(last)];
  }
  return visible;
}

}  // namespace gnn::tasks
