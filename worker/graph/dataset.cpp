#include "worker/graph/dataset.h"

#include "worker/data/dataset_arrays.h"
#include "worker/graph/link_checks.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace gnn::graph {
namespace {

tl::unexpected<Error> problem(std::string_view where, const std::string& what) {
  return fail(ErrorKind::Data, std::string(where) + ": " + what);
}

bool is_id_list(const at::Tensor& tensor) {
  return tensor.defined() && tensor.dim() == 1 && tensor.scalar_type() == at::kLong &&
         tensor.device().is_cpu() && tensor.is_contiguous();
}

Status check_rows(
    const FeatureStore& features, int64_t rows, const std::string& owner, std::string_view where
) {
  if (features.num_rows() != rows) {
    return problem(
        where,
        owner + ": expected " + std::to_string(rows) + " feature rows, found " +
            std::to_string(features.num_rows())
    );
  }
  return {};
}

// `matrix` is "features" or the name of a further matrix.
Status check_finite(
    const FeatureStore& features,
    const std::string& owner,
    const std::string& matrix,
    std::string_view where,
    const data::IdRange& rows,
    Share share,
    ProgressBar& progress
) {
  if (!at::isFloatingType(features.dtype())) {
    return {};
  }
  const int64_t first = rows.begin + share.begin_of(rows.size());
  const int64_t last = rows.begin + share.end_of(rows.size());
  // In slices: the mask of the whole matrix may not fit into memory.
  const int64_t step =
      std::max<int64_t>(1, (int64_t{1} << 22) / std::max<int64_t>(1, features.width()));
  progress.begin("checking features", last - first, "rows");
  for (int64_t begin = first; begin < last; begin += step) {
    const int64_t count = std::min(step, last - begin);
    const at::Tensor slice = features.rows().narrow(0, begin, count);
    progress.advance_to(begin - first);
    // A sum is finite only if all its terms are, so the place is looked for only if it is not.
    if (std::isfinite(slice.sum(at::kDouble).item<double>())) {
      continue;
    }
    const at::Tensor bad = at::nonzero(at::logical_not(at::isfinite(slice)));
    if (bad.size(0) > 0) {
      return problem(
          where,
          owner + ": " + matrix + "[" + std::to_string(begin + bad[0][0].item<int64_t>()) + ", " +
              std::to_string(bad[0][1].item<int64_t>()) + "] is not a finite number"
      );
    }
  }
  progress.advance_to(last - first);
  progress.end();
  return {};
}

std::string name_of(const NodeTypeData& type) {
  return "node type " + type.name;
}

std::string name_of(const EdgeTypeData& type) {
  return "edge type " + text_of(type);
}

Status check_node_type(const NodeTypeData& type, int64_t held, std::string_view where) {
  const std::string owner = name_of(type);
  if (type.num_nodes <= 0) {
    return problem(
        where, owner + ": expected at least one node, found " + std::to_string(type.num_nodes)
    );
  }
  if (type.features) {
    GNN_RETURN_IF_ERROR(check_rows(*type.features, held, owner, where));
  }
  std::set<std::string> names{type.features_name};
  for (const NamedFeatures& more : type.more_features) {
    if (!names.insert(more.name).second) {
      return problem(where, owner + ": two feature matrices are called '" + more.name + "'");
    }
    GNN_RETURN_IF_ERROR(check_rows(more.rows, held, owner + ", features '" + more.name + "'", where)
    );
  }
  if (!type.labels.defined()) {
    return {};
  }
  if (!is_id_list(type.labels) || type.labels.numel() != held) {
    return problem(where, owner + ": expected int64 labels [" + std::to_string(held) + "]");
  }
  return {};
}

Status check_edge_type(const EdgeTypeData& type, const Dataset& dataset, std::string_view where) {
  const std::string owner = name_of(type);
  const auto types = static_cast<int64_t>(dataset.node_types.size());
  if (type.source_index < 0 || type.source_index >= types || type.destination_index < 0 ||
      type.destination_index >= types) {
    return problem(where, owner + ": names a node type that does not exist");
  }
  const NodeTypeData& source = dataset.node_types[static_cast<size_t>(type.source_index)];
  const NodeTypeData& destination = dataset.node_types[static_cast<size_t>(type.destination_index)];
  if (source.name != type.source || destination.name != type.destination) {
    return problem(
        where, owner + ": its node types are " + source.name + " and " + destination.name
    );
  }
  const int64_t held = dataset.held(type.destination_index).size();
  if (type.graph.num_sources() != source.num_nodes || type.graph.num_destinations() != held) {
    return problem(
        where,
        owner + ": joins " + std::to_string(type.graph.num_sources()) + " to " +
            std::to_string(type.graph.num_destinations()) + " nodes, expected " +
            std::to_string(source.num_nodes) + " and " + std::to_string(held)
    );
  }
  return {};
}

// The first edge of these graphs that leaves its graph, or -1. Lists and ids may be wrong: other
// shares are checked elsewhere at the same time.
template <class Index>
int64_t first_edge_between_graphs(const GraphCollection& graphs, const CscGraph& csc, Share share) {
  const auto* offset = graphs.node_offsets.const_data_ptr<int64_t>();
  const auto* indptr = csc.indptr().const_data_ptr<int64_t>();
  const auto* indices = csc.indices().const_data_ptr<Index>();
  const int64_t end = share.end_of(graphs.num_graphs());
  for (int64_t graph = share.begin_of(graphs.num_graphs()); graph < end; ++graph) {
    const int64_t from = std::max<int64_t>(indptr[offset[graph]], 0);
    const int64_t to = std::min(indptr[offset[graph + 1]], csc.num_edges());
    for (int64_t edge = from; edge < to; ++edge) {
      if (indices[edge] < offset[graph] || indices[edge] >= offset[graph + 1]) {
        return edge;
      }
    }
  }
  return -1;
}

Status check_graphs(const Dataset& dataset, std::string_view where) {
  const GraphCollection& graphs = *dataset.graphs;
  if (!dataset.is_homogeneous()) {
    return problem(where, "a collection of graphs has one node type and one edge type");
  }
  if (!is_id_list(graphs.labels) || !is_id_list(graphs.node_offsets) ||
      graphs.node_offsets.numel() != graphs.labels.numel() + 1) {
    return problem(where, "expected int64 graph labels [G] and node offsets [G + 1]");
  }
  const auto* offset = graphs.node_offsets.const_data_ptr<int64_t>();
  if (offset[0] != 0 || offset[graphs.num_graphs()] != dataset.node_types[0].num_nodes) {
    return problem(where, "node offsets of the graphs must run from 0 to the number of nodes");
  }
  for (int64_t i = 0; i < graphs.num_graphs(); ++i) {
    if (offset[i + 1] <= offset[i] || offset[i + 1] > dataset.node_types[0].num_nodes) {
      return problem(where, "graph " + std::to_string(i) + ": expected at least one node");
    }
  }
  return {};
}

Status check_graph_edges(const Dataset& dataset, std::string_view where, Share share) {
  const CscGraph& graph = dataset.edge_types[0].graph;
  const int64_t bad = graph.indices().scalar_type() == at::kInt
                          ? first_edge_between_graphs<int32_t>(*dataset.graphs, graph, share)
                          : first_edge_between_graphs<int64_t>(*dataset.graphs, graph, share);
  if (bad >= 0) {
    return problem(where, "edge " + std::to_string(bad) + " joins two graphs of the collection");
  }
  return {};
}

}  // namespace

data::IdRange Dataset::held(int64_t node_type) const {
  const auto index = static_cast<size_t>(node_type);
  return partitions && partitions->only
             ? partitions->book.range_of(index, *partitions->only)
             : data::IdRange{.begin = 0, .end = node_types[index].num_nodes};
}

std::string text_of(const EdgeTypeData& type) {
  return data::text_of({type.source, type.relation, type.destination});
}

data::IdRange Dataset::rows_of(int64_t node_type, std::optional<int64_t> part) const {
  const data::IdRange all = held(node_type);
  if (!part || !partitions || *part >= partitions->book.parts)
    return {.begin = 0, .end = all.size()};
  const data::IdRange own = partitions->book.range_of(static_cast<size_t>(node_type), *part);
  const auto row_of = [&all](int64_t id) { return std::clamp(id, all.begin, all.end) - all.begin; };
  return {.begin = row_of(own.begin), .end = row_of(own.end)};
}

const CscGraph& Dataset::graph() const {
  GNN_ASSERT(is_homogeneous(), "callers ask for the one graph only after is_homogeneous()");
  return edge_types.front().graph;
}

const FeatureStore& Dataset::features() const {
  GNN_ASSERT(
      is_homogeneous() && node_types.front().features.has_value(),
      "callers ask for the one feature matrix only after looking that it is there"
  );
  return *node_types.front().features;
}

Status check_form(const Dataset& dataset, std::string_view where) {
  const auto types = static_cast<int64_t>(dataset.node_types.size());
  if (types == 0 || dataset.target_node_type < 0 || dataset.target_node_type >= types) {
    return problem(where, "expected at least one node type, the target being one of them");
  }
  std::set<std::string> names;
  for (int64_t index = 0; index < types; ++index) {
    const NodeTypeData& type = dataset.node_types[static_cast<size_t>(index)];
    if (!names.insert(type.name).second) {
      return problem(where, "node type " + type.name + " appears twice");
    }
    GNN_RETURN_IF_ERROR(check_node_type(type, dataset.held(index).size(), where));
  }
  std::set<std::string> edge_type_names;
  for (const EdgeTypeData& type : dataset.edge_types) {
    if (!edge_type_names.insert(name_of(type)).second) {
      return problem(where, name_of(type) + " appears twice");
    }
    GNN_RETURN_IF_ERROR(check_edge_type(type, dataset, where));
  }
  if (dataset.graphs) {
    GNN_RETURN_IF_ERROR(check_graphs(dataset, where));
  }
  if (dataset.links) {
    GNN_RETURN_IF_ERROR(check_links_form(dataset, where));
  }
  return {};
}

Status check_contents(
    const Dataset& dataset,
    std::string_view where,
    Share share,
    ProgressBar& progress,
    const PartCheck& part
) {
  for (size_t i = 0; i < dataset.node_types.size(); ++i) {
    const NodeTypeData& type = dataset.node_types[i];
    const std::string owner = name_of(type);
    const data::IdRange rows = dataset.rows_of(static_cast<int64_t>(i), part.features);
    if (type.features) {
      GNN_RETURN_IF_ERROR(
          check_finite(*type.features, owner, "features", where, rows, share, progress)
      );
    }
    for (const NamedFeatures& more : type.more_features) {
      GNN_RETURN_IF_ERROR(check_finite(more.rows, owner, more.name, where, rows, share, progress));
    }
  }
  for (const EdgeTypeData& type : dataset.edge_types) {
    const Status status = type.graph.check_elements(
        share,
        progress,
        part.lists ? std::optional(dataset.rows_of(type.destination_index, part.lists))
                   : std::nullopt
    );
    if (!status) {
      return problem(where, name_of(type) + ": " + status.error().message);
    }
    if (type.features) {
      const data::IdRange rows{0, type.features->num_rows()};
      GNN_RETURN_IF_ERROR(
          check_finite(*type.features, name_of(type), "features", where, rows, share, progress)
      );
    }
  }
  if (dataset.graphs) {
    GNN_RETURN_IF_ERROR(check_graph_edges(dataset, where, share));
  }
  if (dataset.links) {
    GNN_RETURN_IF_ERROR(check_links(dataset, where, share, progress, part));
  }
  return {};
}

Status check_dataset(const Dataset& dataset, std::string_view where) {
  GNN_RETURN_IF_ERROR(check_form(dataset, where));
  SilentProgressBar silent;
  return check_contents(dataset, where, {}, silent);
}

}  // namespace gnn::graph
