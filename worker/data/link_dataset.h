#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/array.h"
#include "worker/data/csc_builder.h"
#include "worker/data/dataset_arrays.h"

#include <cstdint>

namespace gnn::data {

struct LinkType {
  EdgeTypeName name;
  int64_t num_sources = 0;
  int64_t num_destinations = 0;
};

/// A data set of two node types and the links between them, whose ids are their positions in
/// `edges`. It has no features.
/// Errors: those of build_csc() and set_links().
Result<DatasetArrays> link_dataset(
    const EdgeSource& edges, const LinkType& type, ArrayStorage& storage, ProgressBar& progress
);

}  // namespace gnn::data
