#include "worker/data/transforms.h"

#include "common/bfloat16.h"
#include "worker/data/half.h"
#include "worker/data/links.h"
#include "worker/data/readers/reader.h"

#include <algorithm>
#include <string>
#include <utility>

namespace gnn::data {
namespace {

constexpr const char* kTransformed =
    "transformed.";  // begins the names of arrays that are made here
constexpr const char* kFeaturesSuffix = ".features";
// One-hot degrees are for small graphs; on a large one the width would exhaust memory.
constexpr int64_t kMaxDegreeColumns = 4096;

std::string features_array(const NodeTable& nodes) {
  return kTransformed + nodes.name + kFeaturesSuffix;
}

Result<Array> degree_one_hot(
    const NodeTable& nodes, const EdgeTable& edges, ArrayStorage& storage
) {
  const auto indptr = edges.indptr.view<int64_t>();
  int64_t largest = 0;
  for (size_t node = 0; node + 1 < indptr.size(); ++node) {
    largest = std::max(largest, indptr[node + 1] - indptr[node]);
  }
  if (largest >= kMaxDegreeColumns) {
    return fail(
        ErrorKind::Configuration,
        "a one-hot of the degree would have " + std::to_string(largest + 1) + " columns, at most " +
            std::to_string(kMaxDegreeColumns) + " are supported"
    );
  }
  const int64_t width = largest + 1;
  GNN_ASSIGN_OR_RETURN(
      Array features,
      storage.create(features_array(nodes), DType::Float32, {nodes.num_nodes, width})
  );
  const std::span<float> out = features.mutable_view<float>();
  for (size_t node = 0; node + 1 < indptr.size(); ++node) {
    out[node * static_cast<size_t>(width) + static_cast<size_t>(indptr[node + 1] - indptr[node])] =
        1.0F;
  }
  return features;
}

Result<Array> constant(const NodeTable& nodes, ArrayStorage& storage) {
  GNN_ASSIGN_OR_RETURN(
      Array features, storage.create(features_array(nodes), DType::Float32, {nodes.num_nodes, 1})
  );
  std::fill_n(features.mutable_view<float>().begin(), nodes.num_nodes, 1.0F);
  return features;
}

// The features as float32, writable.
Result<Array> copy_as_float(const NodeTable& nodes, ArrayStorage& storage) {
  const Array& from = nodes.features;
  GNN_ASSIGN_OR_RETURN(
      Array copy, storage.create(features_array(nodes), DType::Float32, from.shape())
  );
  const std::span<float> out = copy.mutable_view<float>();
  const auto* halves = reinterpret_cast<const uint16_t*>(from.bytes());
  switch (from.dtype()) {
    case DType::Float32:
      std::copy_n(from.view<float>().begin(), out.size(), out.begin());
      return copy;
    case DType::Float64:
      std::transform(
          from.view<double>().begin(),
          from.view<double>().end(),
          out.begin(),
          [](double value) { return static_cast<float>(value); }
      );
      return copy;
    case DType::Float16:
      std::transform(halves, halves + out.size(), out.begin(), half_to_float);
      return copy;
    case DType::BFloat16:
      std::transform(halves, halves + out.size(), out.begin(), [](uint16_t value) {
        return bfloat16_to_float(value);
      });
      return copy;
    default:
      return fail(
          ErrorKind::Configuration,
          "row normalisation needs floating-point features, found " +
              std::string(dtype_name(from.dtype()))
      );
  }
}

tl::unexpected<Error> makes_no_sense(const std::string& field, const std::string& why) {
  return fail(ErrorKind::Configuration, field + ": " + why);
}

bool changes_edges(const TransformOptions& options) {
  return options.to_undirected || options.coalesce || options.self_loops != SelfLoops::Keep;
}

bool joins_one_type(const EdgeTable& table) {
  return table.source == table.destination;
}

// The edge type `table` after the options; `linked`: its edges are links.
Status change_edges(
    const DatasetArrays& dataset,
    EdgeTable& table,
    const TransformOptions& options,
    bool linked,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  const bool to_undirected = options.to_undirected && joins_one_type(table);
  if (!to_undirected && !options.coalesce && options.self_loops == SelfLoops::Keep) {
    return {};
  }
  const std::string owner = "edge type " + text_of(name_of(table));
  if (table.features.defined()) {
    return makes_no_sense(owner, "edges with features can't be merged or added");
  }
  const NodeTable* source = find_node_table(dataset, table.source);
  const NodeTable* destination = find_node_table(dataset, table.destination);
  if (source == nullptr || destination == nullptr) {
    return fail(ErrorKind::Data, owner + " joins a node type that is not there");
  }
  CscOptions csc{
      .num_sources = source->num_nodes,
      .num_destinations = destination->num_nodes,
      .to_undirected = to_undirected,
      .coalesce = options.coalesce,
      .self_loops = options.self_loops
  };
  if (linked) {
    csc.link_ids = joins_one_type(table) ? LinkIds::WithinType : LinkIds::BetweenTypes;
    csc.input_ids = table.edge_ids;
  }
  const auto built = build_csc(
      CscEdges(table.indptr, table.indices),
      csc,
      storage,
      kTransformed + array_prefix(name_of(table)),
      progress
  );
  if (!built) {
    return tl::make_unexpected(with_context(built.error(), owner));
  }
  table.indptr = built->indptr;
  table.indices = built->indices;
  table.edge_ids = built->edge_ids;
  return {};
}

// All edge types after the options, and what follows from them: links, and reverse edge types, which
// are made anew.
Result<DatasetArrays> with_changed_edges(
    DatasetArrays dataset, TransformOptions options, ArrayStorage& storage, ProgressBar& progress
) {
  if (dataset.links && !options.link) {
    options.link = name_of(dataset.edge_tables[dataset.links->edge_table]);
  }
  dataset.links.reset();
  const std::vector<EdgeTypeName> reversed = remove_reverse(dataset);
  for (EdgeTable& table : dataset.edge_tables) {
    const bool linked = options.link == name_of(table);
    GNN_RETURN_IF_ERROR(change_edges(dataset, table, options, linked, storage, progress));
  }
  if (options.link) {
    GNN_ASSIGN_OR_RETURN(dataset, set_links(std::move(dataset), *options.link, storage, progress));
  }
  return add_reverse(reversed, std::move(dataset), storage, progress);
}

Status change_features(
    const EdgeTable& edges, NodeTable& nodes, const TransformOptions& options, ArrayStorage& storage
) {
  Array features;
  if (options.features == FeatureSource::Constant) {
    GNN_ASSIGN_OR_RETURN(features, constant(nodes, storage));
  } else if (options.features == FeatureSource::DegreeOneHot) {
    GNN_ASSIGN_OR_RETURN(features, degree_one_hot(nodes, edges, storage));
  } else {
    GNN_ASSIGN_OR_RETURN(features, copy_as_float(nodes, storage));
  }
  if (options.normalize_rows) {
    normalize_rows(features.mutable_view<float>(), features.size(1));
  }
  GNN_ASSIGN_OR_RETURN(nodes.features, storage.commit(std::move(features)));
  return {};
}

}  // namespace

Status check_transforms(const DatasetArrays& types, const TransformOptions& options) {
  const bool typed = types.node_tables.size() != 1 || types.edge_tables.size() != 1;
  if (typed && options.self_loops != SelfLoops::Keep) {
    return makes_no_sense("addSelfLoops", "needs a data set with one node type and one edge type");
  }
  if (typed && options.features == FeatureSource::DegreeOneHot) {
    return makes_no_sense(
        "nodeFeatures DegreeOneHot", "needs a data set with one node type and one edge type"
    );
  }
  if (typed && options.features == FeatureSource::Constant) {
    return makes_no_sense("nodeFeatures Constant", "needs a data set with one node type");
  }
  if (options.to_undirected &&
      std::none_of(types.edge_tables.begin(), types.edge_tables.end(), joins_one_type)) {
    return makes_no_sense(
        "toUndirected",
        "no edge type joins nodes of one type; addReverse adds the reverse of the others as edge "
        "types of their own"
    );
  }
  return {};
}

TransformOptions what_is_left_of(const TransformOptions& options, const DatasetArrays& dataset) {
  TransformOptions left = options;
  if (left.link && has_links(dataset, *left.link)) {
    left.link.reset();
  }
  left.add_reverse = left.add_reverse && !has_reverse_types(dataset);
  return left;
}

Result<DatasetArrays> transform(
    DatasetArrays dataset,
    const TransformOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  GNN_RETURN_IF_ERROR(check_transforms(dataset, options));
  if (changes_edges(options)) {
    GNN_ASSIGN_OR_RETURN(
        dataset, with_changed_edges(std::move(dataset), options, storage, progress)
    );
  }
  if (options.link) {
    GNN_ASSIGN_OR_RETURN(dataset, set_links(std::move(dataset), *options.link, storage, progress));
  }
  if (options.add_reverse) {
    GNN_ASSIGN_OR_RETURN(dataset, add_reverse(std::move(dataset), storage, progress));
  }
  if (options.features == FeatureSource::Provided && !options.normalize_rows) {
    return dataset;
  }
  bool changed = false;
  for (NodeTable& nodes : dataset.node_tables) {
    if (options.features == FeatureSource::Provided && !nodes.features.defined()) {
      continue;
    }
    GNN_RETURN_IF_ERROR(change_features(dataset.edge_tables.front(), nodes, options, storage));
    changed = true;
  }
  if (!changed) {
    return fail(ErrorKind::Configuration, "the data set has no features to normalise");
  }
  return dataset;
}

}  // namespace gnn::data
