#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/array.h"
#include "worker/data/dataset_arrays.h"
#include "worker/data/link_split.h"
#include "worker/graph/dataset.h"

namespace gnn::app {

/// Whether keep_link_split() can split the links of a data set with the memory that the storage leaves
/// it: before hours are spent on their partitions.
/// Errors: Configuration naming the option.
[[nodiscard]] Status check_link_split(
    const graph::Dataset& original,
    const data::LinkSplitOptions& options,
    const data::ArrayStorage& storage
);

/// Splits the links of `original`, which passed check_link_split(), and gives the split to `parts`, which
/// was made of it: links by their ids, negatives with the new ids of their nodes. Commits its arrays to
/// the storage; those that an earlier run completed are reused.
/// Errors: those of tasks::split_links() and of the storage.
[[nodiscard]] Status keep_link_split(
    data::DatasetArrays& parts,
    const graph::Dataset& original,
    const data::LinkSplitOptions& options,
    data::ArrayStorage& storage,
    ProgressBar& progress
);

}  // namespace gnn::app
