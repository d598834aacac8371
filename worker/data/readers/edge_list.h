#pragma once

#include "worker/data/readers/reader.h"

#include <string>

namespace gnn::data {

/// Reads a plain folder. Each of these is NAME.npy, NAME.csv.gz or NAME.csv; all but edges are
/// optional:
/// - edges: "source,destination" per line, or .npy [2, E] or [E, 2];
/// - features: [N, width];
/// - labels: [N] or [N, 1];
/// - train, validation, test: ids.
/// The number of nodes is that of the labels or features, else the largest id + 1. A folder with
/// folders "nodes" or "edges" is read_typed_edge_list()'s.
/// Errors: NotFound for missing edges or a required split; Data with file and line or offset.
Result<DatasetArrays> read_edge_list(
    const std::string& folder,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
);

}  // namespace gnn::data
