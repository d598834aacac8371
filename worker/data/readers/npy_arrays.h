#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/io/npy.h"
#include "worker/data/readers/reader.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace gnn::data {

// What readers make of NumPy arrays, in .npy files or as members of .npz files, a few thousand
// elements at a time. Readers are consumed.

/// Calls `chunk` with all elements as int64, in the order of the file, and the position of the
/// first of them. NaN becomes *nan_value unless that is null.
/// Errors: those of `chunk` and of NpyReader.
Status for_each_integer_chunk(
    NpyReader reader,
    const std::function<Status(int64_t position, std::span<const int64_t> elements)>& chunk,
    const int64_t* nan_value = nullptr
);

/// An array that may be read more than once.
using OpenNpy = std::function<Result<NpyReader>()>;
/// The rows of an array of shape [num_nodes, width] in C order, committed under `name`. num_nodes < 0:
/// as many as there are.
/// Errors: Data for another shape or a number that is not finite.
Result<Array> read_npy_features(
    const OpenNpy& open,
    const std::string& name,
    int64_t num_nodes,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
);

/// The labels of an array of shape [num_nodes] or [num_nodes, 1], committed under kLabelsName. NaN
/// becomes -1, no label.
/// Errors: Data for another shape or numbers that are not whole.
Result<Array> read_npy_labels(NpyReader reader, int64_t num_nodes, ArrayStorage& storage);

/// The edges of an array of shape [2, E] or [E, 2], in scratch memory, with ids below `num_nodes` or
/// wrong. [2, 2] is read as the former.
/// Errors: Data for another shape.
Result<ArrayEdges> read_npy_ends(
    NpyReader reader, int64_t num_nodes, ArrayStorage& storage, ProgressBar& progress
);

/// The edges of an array of shape [2, E] or [E, 2]; [2, 2] is read as the former.
/// Errors: Data for another shape, or an id out of range with the number of its edge, from 0.
Result<CscArrays> read_npy_edges(
    NpyReader reader,
    int64_t num_nodes,
    const ReadOptions& options,
    ArrayStorage& storage,
    ProgressBar& progress
);

}  // namespace gnn::data
