#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/array.h"
#include "worker/data/dataset_arrays.h"

#include <cstdint>
#include <string>

namespace gnn::partition {

/// One part of a partitioned data set: its lists, feature rows, labels and hot rows alone, and all of
/// the split, of the pairs of links and of edge features. `whole_digest` identifies the whole data set.
/// Errors: Configuration if the data set is not partitioned, is a part itself, or has no such part;
/// those of the storage.
Result<data::DatasetArrays> extract(
    const data::DatasetArrays& dataset,
    int64_t part,
    const std::string& whole_digest,
    data::ArrayStorage& storage,
    ProgressBar& progress
);

}  // namespace gnn::partition
