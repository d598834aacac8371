#pragma once

#include "worker/data/readers/reader.h"

#include <string>

namespace gnn::data {

/// Whether the folder has a folder "nodes" or "edges".
bool is_typed_edge_list(const std::string& folder);

/// Reads a folder of several node and edge types. Each of these files is NAME.npy, NAME.csv.gz or
/// NAME.csv:
/// - edges/SOURCE__RELATION__DESTINATION: the edges of a type, "source,destination" per line, or .npy
///   [2, E] or [E, 2];
/// - nodes/TYPE/num_nodes: one number; features: [N, width]; features.NAME: a further matrix; labels:
///   [N] or [N, 1], of one type at most; train, validation and test: ids, beside the labels.
/// Types are named by letters, digits, "_" and "-". Without a folder "nodes", the ends of the edge
/// types are the node types. The number of nodes is that of num_nodes, features or labels, else the
/// largest id in the edges + 1. Edge ids are positions in the file, if the edges are links.
/// Errors: NotFound for a required split or without edges; Configuration for options without a meaning
/// here; Data with file and line or offset.
Result<DatasetArrays> read_typed_edge_list(
    const std::string& folder,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
);

}  // namespace gnn::data
