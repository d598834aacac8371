#pragma once

#include "worker/graph/readers/reader.h"

#include <string>

namespace gnn::graph {

/// Reads a set of graphs in TU Dortmund's text form from `folder` (or `folder`/raw): NAME_A.txt
/// with 1-based "i, j" for an edge i -> j, NAME_graph_indicator.txt, NAME_graph_labels.txt and,
/// where they are, NAME_node_attributes.txt and NAME_node_labels.txt. Features are the attributes,
/// then the labels one-hot, as PyG's TUDataset has them; without both there are none. Labels are
/// numbered in ascending order of their values. The form knows no split. Errors: NotFound for a
/// missing file; Data with file and line. Source: chrsmrrs.github.io/datasets/docs/format
Result<DatasetArrays> read_tu(
    const std::string& folder, const ReadOptions& options, ArrayStorage& storage, Progress& progress
);

}  // namespace gnn::graph
