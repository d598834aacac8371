#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/array.h"
#include "worker/data/csc_builder.h"
#include "worker/data/dataset_arrays.h"

#include <cstdint>

namespace gnn::data {

/// Where the nodes' features come from.
enum class FeatureSource {
  Provided,
  Constant,      ///< a single 1.0 for each node
  DegreeOneHot,  ///< one-hot of the in-degree, largest degree + 1 columns (PyG's OneHotDegree)
};

struct TransformOptions {
  bool to_undirected = false;
  bool coalesce = false;
  SelfLoops self_loops = SelfLoops::Keep;
  FeatureSource features = FeatureSource::Provided;
  bool normalize_rows = false;  ///< last; PyG's NormalizeFeatures

  friend bool operator==(const TransformOptions&, const TransformOptions&) = default;
};

/// Applies the transforms to a homogeneous data set. Arrays that change are made in `storage`, the
/// others are shared.
/// Errors: Configuration if the data set has several types, or edge features that would lose their
/// edges.
Result<DatasetArrays> transform(
    DatasetArrays dataset,
    const TransformOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
);

}  // namespace gnn::data
