#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/array.h"
#include "worker/data/io/npy.h"
#include "worker/data/readers/reader.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gnn::data {

// The files of edge list folders: .npy, or text with a line for each row, gzipped or not.

/// The path of NAME.npy, NAME.csv.gz or NAME.csv in `folder`, or "".
std::string find_part(const std::string& folder, const std::string& name);

/// Errors: NotFound, Io, Data.
Result<NpyReader> open_npy(const std::string& path);

/// The integers of a file with one column, int64 [N] in scratch memory; NaN becomes -1.
/// Errors: Data with file and line.
Result<Array> read_column(const std::string& path, ArrayStorage& storage);

/// The feature rows of a file, committed under `name`; undefined for the path "".
/// Errors: Data with file and line.
Result<Array> read_plain_features(
    const std::string& path,
    const std::string& name,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
);

/// The files train, validation and test of a folder; undefined arrays without a file "train".
/// Errors: NotFound without a split that is required; Data with file and position.
Result<SplitArrays> read_plain_split(
    const std::string& folder, const ReadOptions& options, int64_t num_nodes, ArrayStorage& storage
);

}  // namespace gnn::data
