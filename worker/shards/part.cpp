#include "worker/shards/part.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <string>
#include <utility>

namespace gnn::shards {
namespace {

PartRows rows_of(const at::Tensor& rows, const data::IdRange& held, const data::IdRange& wanted) {
  if (!rows.defined()) return {.nodes = wanted, .rows = {}};
  return {.nodes = wanted, .rows = rows.narrow(0, wanted.begin - held.begin, wanted.size())};
}

PartLists lists_of(
    const graph::CscGraph& graph, const data::IdRange& held, const data::IdRange& wanted
) {
  return {
      .nodes = wanted,
      .indptr = graph.indptr().narrow(0, wanted.begin - held.begin, wanted.size() + 1),
      .indices = graph.indices(),
      .edge_ids = graph.edge_ids(),
      .num_sources = graph.num_sources()
  };
}

Status check(const graph::Dataset& dataset, const PartOptions& options) {
  if (!dataset.partitions) {
    return fail(
        ErrorKind::Configuration,
        dataset.name + ": expected a partitioned data set, as gnn-worker data partition writes it"
    );
  }
  const graph::PartitionData& partitions = *dataset.partitions;
  if (options.part < 0 || options.part >= partitions.book.parts) {
    return fail(
        ErrorKind::Configuration,
        dataset.name + ": expected a part in [0, " + std::to_string(partitions.book.parts) +
            "), found " + std::to_string(options.part)
    );
  }
  if (!partitions.only) return {};
  if (*partitions.only != options.part) {
    return fail(
        ErrorKind::Configuration,
        dataset.name + ": expected part " + std::to_string(options.part) + " or the whole, found " +
            "part " + std::to_string(*partitions.only)
    );
  }
  if (options.topology == Held::Own && options.features == Held::Own) return {};
  return fail(
      ErrorKind::Configuration,
      dataset.name + ": holds one part alone, where topology and features must be Partitioned"
  );
}

}  // namespace

PartLists PartLists::of(const graph::CscGraph& graph, const data::IdRange& nodes) {
  return lists_of(graph, nodes, nodes);
}

Result<graph::CscGraph> PartLists::graph_of(const data::IdRange& some, bool with_edge_ids) const {
  const at::Tensor offsets = indptr.narrow(0, some.begin - nodes.begin, some.size() + 1);
  const auto* const bounds = offsets.const_data_ptr<int64_t>();
  const int64_t begin = bounds[0];
  const int64_t edges = bounds[some.size()] - begin;
  at::Tensor ids;
  if (with_edge_ids)
    ids = edge_ids.defined() ? edge_ids.narrow(0, begin, edges) : at::arange(begin, begin + edges);
  return graph::CscGraph::create_unchecked(
      begin == 0 ? offsets : offsets.sub(begin), indices.narrow(0, begin, edges), num_sources, ids
  );
}

Result<graph::CscGraph> Part::own_graph(
    const PartLists& lists, int64_t node_type, bool with_edge_ids
) const {
  const auto graphs = own_graphs_.lock();
  const auto key = std::pair(lists.indptr.const_data_ptr(), with_edge_ids);
  auto found = graphs->find(key);
  if (found == graphs->end()) {
    GNN_ASSIGN_OR_RETURN(auto graph, lists.graph_of(own(node_type), with_edge_ids));
    found = graphs->emplace(key, OwnGraph{.indptr = lists.indptr, .graph = std::move(graph)}).first;
  }
  return found->second.graph;
}

Result<std::shared_ptr<const Part>> Part::create(
    const graph::Dataset& dataset, const PartOptions& options
) {
  GNN_RETURN_IF_ERROR(check(dataset, options));
  std::shared_ptr<Part> part(new Part);
  part->options_ = options;
  part->book_ = dataset.partitions->book;
  const auto wanted = [&](int64_t type, Held how) {
    return how == Held::Own ? part->own(type) : dataset.held(type);
  };
  for (size_t i = 0; i < dataset.node_types.size(); ++i) {
    const graph::NodeTypeData& type = dataset.node_types[i];
    const auto index = static_cast<int64_t>(i);
    const data::IdRange held = dataset.held(index);
    part->num_nodes_.push_back(type.num_nodes);
    part->features_.push_back(rows_of(
        type.features ? type.features->rows() : at::Tensor(), held, wanted(index, options.features)
    ));
    part->labels_.push_back(rows_of(type.labels, held, held));
  }
  for (const graph::EdgeTypeData& type : dataset.edge_types) {
    const int64_t destination = type.destination_index;
    part->lists_.push_back(
        lists_of(type.graph, dataset.held(destination), wanted(destination, options.topology))
    );
    part->lists_.back().has_edge_ids = type.graph.edge_ids().defined() || !dataset.partitions->only;
  }
  return std::shared_ptr<const Part>(std::move(part));
}

}  // namespace gnn::shards
