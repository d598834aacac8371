#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/array.h"
#include "worker/data/csc_builder.h"
#include "worker/data/dataset_arrays.h"

#include <optional>

namespace gnn::data {

/// Where the nodes' features come from.
enum class FeatureSource {
  Provided,
  Constant,      ///< a single 1.0 for each node
  DegreeOneHot,  ///< one-hot of the in-degree, largest degree + 1 columns (PyG's OneHotDegree)
};

struct TransformOptions {
  bool to_undirected = false;  ///< each edge type that joins nodes of one type
  bool coalesce = false;       ///< each edge type
  SelfLoops self_loops = SelfLoops::Keep;
  std::optional<EdgeTypeName> link{};  ///< then: set_links()
  bool add_reverse = false;            ///< then: add_reverse()
  FeatureSource features = FeatureSource::Provided;
  bool normalize_rows = false;  ///< last; PyG's NormalizeFeatures, of each type's main features

  friend bool operator==(const TransformOptions&, const TransformOptions&) = default;
};

/// `options` without links and reverse edge types that the data set, whose contents are checked, has
/// already.
TransformOptions what_is_left_of(const TransformOptions& options, const DatasetArrays& dataset);

/// Whether transforms of edges and features that are made from nothing make sense for these node and
/// edge types, of which only the names are looked at.
/// Errors: Configuration naming the field of a GNNJob.
Status check_transforms(const DatasetArrays& types, const TransformOptions& options);

/// Applies the transforms. Arrays that change are made in `storage`, the others are shared. Where
/// edges are added or merged, ids of edges change: links are numbered anew, and their pairs and
/// reverse edge types follow.
/// Errors: Configuration for edges added or merged that have features; those of check_transforms(),
/// set_links() and add_reverse().
Result<DatasetArrays> transform(
    DatasetArrays dataset,
    const TransformOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
);

}  // namespace gnn::data
