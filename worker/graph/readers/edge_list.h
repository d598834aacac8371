#pragma once

#include "worker/graph/readers/reader.h"

#include <string>

namespace gnn::graph {

/// Reads a plain folder: edges ("source,destination" a line, or .npy [2, E] or [E, 2]); optionally
/// features
/// (.npy [N, width]), labels (.npy [N] or [N, 1]) and train, validation and test (ids). Each is
/// NAME.npy, NAME.csv.gz or NAME.csv. The number of nodes is that of the labels or features, else
/// the largest id + 1. Errors: NotFound for missing edges, or a split that is needed; Data with
/// file and line or offset.
Result<DatasetArrays> read_edge_list(
    const std::string& folder, const ReadOptions& options, ArrayStorage& storage, Progress& progress
);

}  // namespace gnn::graph
