#pragma once

#include "worker/data/readers/reader.h"

#include <string>

namespace gnn::data {

/// Reads a set of graphs in TU Dortmund's text form from `folder` (or `folder`/raw).
/// - Files: NAME_A.txt with 1-based "i, j" for an edge i -> j, NAME_graph_indicator.txt,
///   NAME_graph_labels.txt and, optionally, NAME_node_attributes.txt and NAME_node_labels.txt.
///   Label files have one column; each node has a row of attributes.
/// - Features: the attributes, then the node labels one-hot, as in PyG's TUDataset.
/// - Labels are numbered in ascending order of their values.
/// - There is no split.
/// Errors: NotFound for a missing file; Data with file and line.
/// Source: chrsmrrs.github.io/datasets/docs/format
Result<DatasetArrays> read_tu(
    const std::string& folder,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
);

}  // namespace gnn::data
