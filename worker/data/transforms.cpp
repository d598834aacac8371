#include "worker/data/transforms.h"

#include "worker/data/half.h"
#include "worker/data/readers/reader.h"

#include <algorithm>
#include <string>
#include <utility>

namespace gnn::data {
namespace {

constexpr const char* kTransformedEdges = "transformed.edges";
constexpr const char* kTransformedFeatures = "transformed.features";
// One-hot degrees are for small graphs; on a large one the width would exhaust memory.
constexpr int64_t kMaxDegreeColumns = 4096;

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
      Array features, storage.create(kTransformedFeatures, DType::Float32, {nodes.num_nodes, width})
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
      Array features, storage.create(kTransformedFeatures, DType::Float32, {nodes.num_nodes, 1})
  );
  std::fill_n(features.mutable_view<float>().begin(), nodes.num_nodes, 1.0F);
  return features;
}

// The features as float32, writable.
Result<Array> copy_as_float(const Array& from, ArrayStorage& storage) {
  GNN_ASSIGN_OR_RETURN(
      Array copy, storage.create(kTransformedFeatures, DType::Float32, from.shape())
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
      std::transform(halves, halves + out.size(), out.begin(), bfloat16_to_float);
      return copy;
    default:
      return fail(
          ErrorKind::Configuration,
          "row normalisation needs floating-point features, found " +
              std::string(dtype_name(from.dtype()))
      );
  }
}

}  // namespace

Result<DatasetArrays> transform(
    DatasetArrays dataset,
    const TransformOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
) {
  const bool edges_change =
      options.to_undirected || options.coalesce || options.self_loops != SelfLoops::Keep;
  const bool features_change =
      options.features != FeatureSource::Provided || options.normalize_rows;
  if (!edges_change && !features_change) {
    return dataset;
  }
  if (dataset.node_tables.size() != 1 || dataset.edge_tables.size() != 1) {
    return fail(
        ErrorKind::Configuration,
        "transforms of edges and features need a data set with one node type and one edge type"
    );
  }
  NodeTable& nodes = dataset.node_tables.front();
  EdgeTable& edges = dataset.edge_tables.front();
  if (edges_change) {
    if (edges.features.defined() || edges.edge_ids.defined()) {
      return fail(
          ErrorKind::Configuration,
          "edges with features or ids of their own can't be merged or added"
      );
    }
    const CscOptions csc{
        .num_sources = nodes.num_nodes,
        .num_destinations = nodes.num_nodes,
        .to_undirected = options.to_undirected,
        .coalesce = options.coalesce,
        .self_loops = options.self_loops
    };
    GNN_ASSIGN_OR_RETURN(
        const CscArrays built,
        build_csc(CscEdges(edges.indptr, edges.indices), csc, storage, kTransformedEdges, progress)
    );
    edges.indptr = built.indptr;
    edges.indices = built.indices;
  }
  if (!features_change) {
    return dataset;
  }
  Array features = nodes.features;
  if (options.features == FeatureSource::Constant) {
    GNN_ASSIGN_OR_RETURN(features, constant(nodes, storage));
  } else if (options.features == FeatureSource::DegreeOneHot) {
    GNN_ASSIGN_OR_RETURN(features, degree_one_hot(nodes, edges, storage));
  } else if (!features.defined()) {
    return fail(ErrorKind::Configuration, "the data set has no features to normalise");
  } else {
    GNN_ASSIGN_OR_RETURN(features, copy_as_float(features, storage));
  }
  if (options.normalize_rows) {
    normalize_rows(features.mutable_view<float>(), features.size(1));
  }
  GNN_ASSIGN_OR_RETURN(nodes.features, storage.commit(std::move(features)));
  return dataset;
}

}  // namespace gnn::data
