#pragma once

#include "common/api/gnn_job.h"
#include "common/progress.h"
#include "common/result.h"
#include "worker/graph/dataset.h"
#include "worker/graph/dataset_arrays.h"
#include "worker/graph/mapped_file.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace gnn::graph {

struct LoadOptions {
  /// Where the split has no seed of its own.
  int64_t training_seed = 0;
  MapOptions map;
};

/// Loads what `spec.dataset` of a GNNJob names, whatever its format, applies its transforms and its
/// split, and checks the result. Native sets are mapped, the rest is read into memory. With split
/// KFold and no fold named, fold 0 is taken; make_split() gives the others. Errors: NotFound,
/// Data with file and place, Configuration with the field of the spec.
Result<Dataset> load_dataset(
    const api::Dataset& spec, const LoadOptions& options, Progress& progress
);

/// The split that `split` asks for; Provided gives the one the data set came with.
/// Errors: Configuration; Data when none came with it.
Result<DataSplit> make_split(
    const Dataset& dataset, const api::Split& split, int64_t training_seed
);

/// Tensors over the arrays, sharing their memory, with everything that a Dataset promises checked.
Result<Dataset> make_dataset(const DatasetArrays& arrays, std::string_view where);

}  // namespace gnn::graph
