#pragma once

#include "worker/data/readers/reader.h"

#include <string>

namespace gnn::data {

/// Reads a set of graphs in the text form of "How powerful are graph neural networks?" (Xu et al.
/// 2019). `path` is the file, or a folder with one .txt file in it.
/// - Text: the number of graphs; for each a line "nodes label", then for each of its nodes "tag
///   degree neighbour… [attribute…]". Neighbours are numbered from 0 within the graph; neighbour k
///   in node j's line is the edge j -> k.
/// - Features: the attributes, else the tags one-hot (one constant column if all are equal).
/// - Labels and tags are numbered in order of first appearance, as the authors' loader does.
/// - There is no split.
/// Errors: NotFound; Data with file and line.
Result<DatasetArrays> read_gin(
    const std::string& path,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
);

}  // namespace gnn::data
