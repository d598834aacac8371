#pragma once

#include "worker/graph/readers/reader.h"

#include <string>

namespace gnn::graph {

/// Reads a set of graphs in the text form of "How powerful are graph neural networks?" (Xu et al.
/// 2019): the number of graphs; for each a line "nodes label", then for each of its nodes "tag
/// degree neighbour… [attribute…]", neighbours numbered from 0 within the graph. `path` is the
/// file, or a folder with one .txt file in it. A neighbour k in node j's line is the edge j -> k.
/// Features are the attributes where there are some, else the tags one-hot (one constant column
/// when all are equal). Labels and tags are numbered by first sight, as the authors' loader does.
/// The form knows no split. Errors: NotFound; Data with file and line.
Result<DatasetArrays> read_gin(
    const std::string& path, const ReadOptions& options, ArrayStorage& storage, Progress& progress
);

}  // namespace gnn::graph
