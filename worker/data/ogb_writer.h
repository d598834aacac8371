#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/dataset_arrays.h"

#include <string>

namespace gnn::data {

/// Writes a data set in OGB's form to the new folder `folder`: raw/data.npz (edge_index int64 [2, E],
/// num_nodes_list, num_edges_list, node_feat), raw/node-label.npz (node_label [N, 1]: int64, or
/// float32 with NaN if nodes have no label, as in ogbn-papers100M) and split/time. Edges are in the
/// order of the neighbour lists. All is written in order, in little memory.
/// Errors: Configuration unless there is one node type, with features, labels and a split, and one
/// edge type; Io.
Status write_ogb(const DatasetArrays& dataset, const std::string& folder, ProgressBar& progress);

}  // namespace gnn::data
