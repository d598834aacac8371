#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "common/thread_pool.h"
#include "worker/data/array.h"
#include "worker/data/dataset_arrays.h"
#include "worker/partition/assign.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gnn::partition {

/// Fan-outs of one edge type.
struct EdgeTypeFanout {
  data::EdgeTypeName edge_type;
  std::vector<int64_t> fanout;
};

struct PartitionOptions {
  int64_t parts = 0;
  Method method = Method::Hotness;
  std::vector<int64_t> fanout{};  ///< by hop, the one next to the seeds first
  std::vector<EdgeTypeFanout> fanout_by_edge_type{};
  int64_t batch_size = 0;
  bool replace = false;
  data::HopRule rule = data::HopRule::NewNodes;
  double negatives = 1;  ///< of each link; without links it has no meaning
  /// Rows of other parts that are listed as a part's hottest, as a share of a type's nodes.
  double hot_rows = 0.2;
  int64_t seed = 0;
};

/// "parts=4, method=hotness, …": equal texts for equal options.
std::string describe(const PartitionOptions& options);

/// Deals the nodes of a data set to parts and renumbers them, so that each part owns a range of each
/// node type, in the order of their hotness for the part's own batches. Features keep their types,
/// links and edges their ids; split ids ascend. Takes at most storage.memory_bytes() of memory beside
/// mapped files, whatever the data set's size: arrays are made in as many passes as that takes.
/// Working arrays, which a run that resumes this one needs, are named kWorkPrefix….
/// Errors: Configuration naming the option, also for a data set that can't be partitioned (graphs of a
/// collection, fewer nodes than parts, one that is partitioned) and for too little memory; those of the
/// method and the storage.
Result<data::DatasetArrays> partition(
    const data::DatasetArrays& dataset,
    const PartitionOptions& options,
    data::ArrayStorage& storage,
    ThreadPool& others,
    ProgressBar& progress
);

}  // namespace gnn::partition
