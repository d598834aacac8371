#pragma once

#include "common/progress.h"
#include "common/result.h"
#include "worker/graph/array.h"
#include "worker/graph/csc_builder.h"
#include "worker/graph/dataset_arrays.h"

#include <cstdint>

namespace gnn::graph {

/// What becomes of the nodes' features.
enum class FeatureSource {
  Provided,
  Constant,      // a single 1.0 for each node
  DegreeOneHot,  // one-hot of the in-degree, largest degree + 1 columns (PyG's OneHotDegree)
};

struct TransformOptions {
  bool to_undirected = false;
  bool coalesce = false;
  SelfLoops self_loops = SelfLoops::Keep;
  FeatureSource features = FeatureSource::Provided;
  bool normalize_rows = false;  // after the features are made; PyG's NormalizeFeatures
};

/// Applies the transforms to a homogeneous data set; what changes is made anew in `storage`, the
/// rest is shared. Edge order: undirected and coalesced first, self loops with them. Errors:
/// Configuration when the data set has several types, or edge features that would lose their
/// edges.
Result<DatasetArrays> transform(
    DatasetArrays dataset,
    const TransformOptions& options,
    ArrayStorage& storage,
    Progress& progress
);

}  // namespace gnn::graph
