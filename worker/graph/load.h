#pragma once

#include "common/api/gnn_job.h"
#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/dataset_arrays.h"
#include "worker/data/mapped_file.h"
#include "worker/graph/dataset.h"
#include "worker/graph/share.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace gnn::graph {

/// Checks the part `share` of a data set's contents; fails with Data.
using ContentCheck = std::function<Status(Share share, ProgressBar& progress)>;

struct LoadOptions {
  /// Seeds a split that has no seed of its own.
  int64_t training_seed = 0;
  /// Memory that this process may use, page cache included. Files that take more than half of it are
  /// read a page at a time once they are checked: most of what is read ahead would leave memory
  /// before its use.
  int64_t memory_bytes = std::numeric_limits<int64_t>::max();
  /// The edge type whose edges are to be predicted: load_dataset() makes them Dataset::links, and no
  /// split of items.
  std::optional<data::EdgeTypeName> link{};
  /// Adds the reverse of each edge type between two node types (see data::add_reverse()).
  bool add_reverse = false;
  /// Of a partitioned data set what this process reads; nothing else is checked. With transforms,
  /// which read all, it has no effect.
  PartCheck part{};
  /// Takes an extracted part of a data set, too; without it, that is an error.
  bool accept_part = false;
  /// Sees to it that the contents of mapped files are right, by calling `check` or otherwise;
  /// `version` is data::NativeDataset's. By default the caller checks all of them.
  std::function<Status(const std::string& version, const ContentCheck& check)> check_mapped{};
};

/// Loads the data set of a GNNJob's `spec.dataset`, applies its transforms and its split, and
/// checks the result. Native sets are mapped, and stay so except for the arrays that a transform
/// changes; all others are read into memory. A KFold split without a
/// fold takes fold 0; make_split() gives the others.
/// Errors: Data with file and place, Configuration with the field of the spec, also for an extracted
/// part that is not accepted, or would be transformed or split anew.
Result<Dataset> load_dataset(
    const api::Dataset& spec, const LoadOptions& options, ProgressBar& progress
);

/// Makes the split that `split` describes; Provided returns the data set's own.
/// Errors: Configuration; Data if the data set has no split or no labels.
Result<DataSplit> make_split(
    const Dataset& dataset, const api::Split& split, int64_t training_seed
);

/// A checked Dataset (see check_dataset() and data::check_items()) whose tensors share the arrays'
/// memory. `where` names the data set in messages.
Result<Dataset> make_dataset(const data::DatasetArrays& arrays, std::string_view where);

}  // namespace gnn::graph
