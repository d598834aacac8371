#pragma once

#include "worker/data/native.h"
#include "worker/graph/load.h"

#include <string>

namespace gnn::graph::testing {

/// A published data set as it is, without a job's transforms and split.
inline Result<Dataset> load_native(const std::string& directory) {
  GNN_ASSIGN_OR_RETURN(const data::NativeDataset native, data::open_native(directory));
  return make_dataset(native.arrays, directory);
}

}  // namespace gnn::graph::testing
