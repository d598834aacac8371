#pragma once

#include "worker/data/readers/reader.h"

#include <string>

namespace gnn::data {

/// Reads a node-property data set in the raw form of the Open Graph Benchmark:
/// - `folder`/raw with either edge.csv.gz, node-feat.csv.gz, node-label.csv.gz,
///   num-node-list.csv.gz and num-edge-list.csv.gz, or data.npz and node-label.npz;
/// - `folder`/split/NAME/{train,valid,test}.csv.gz.
/// Each .csv.gz may also be a plain .csv.
/// Errors: NotFound for a missing file or split; Data with file and line or offset.
/// Source: ogb/io/read_graph_raw.py.
Result<DatasetArrays> read_ogb(
    const std::string& folder,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
);

}  // namespace gnn::data
