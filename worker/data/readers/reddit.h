#pragma once

#include "worker/data/readers/reader.h"

#include <string>

namespace gnn::data {

/// Reads the Reddit data set (Hamilton et al. 2017) in the form that PyG and DGL download, from
/// `folder` or `folder`/raw:
/// - reddit_data.npz: feature [N, width], label [N], and node_types [N] with 1 for a node to train
///   on, 2 for validation and 3 for test. Other members (node_ids) are not read;
/// - reddit_graph.npz: a scipy matrix of shape [N, N] and format coo with the members row, col,
///   data, shape and format. An element (r, c) is the edge r -> c; its value is not read.
/// Duplicate edges are merged whatever the options say, as PyG does.
/// Errors: NotFound for a missing file or member; Configuration for the name of a split; Data with
/// file, member and the first offender.
/// Source: torch_geometric/datasets/reddit.py, scipy/sparse/_matrix_io.py.
Result<DatasetArrays> read_reddit(
    const std::string& folder,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
);

}  // namespace gnn::data
