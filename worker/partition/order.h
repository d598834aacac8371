#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "common/thread_pool.h"
#include "worker/data/array.h"
#include "worker/data/dataset_arrays.h"
#include "worker/partition/assign.h"
#include "worker/partition/hotness.h"
#include "worker/partition/seeds.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gnn::partition {

/// How many parts there are, and which of the rows of other parts are kept for each.
struct OrderOptions {
  int64_t parts = 1;
  double hot_rows = 0;  ///< as a share of the nodes of each type
};

/// Memory that order_nodes() takes beside `assignment`.
int64_t order_bytes(const HotnessInput& graph, const OrderOptions& options);

/// Numbers the nodes of each part in the order of their hotness for the part's own batches, descending,
/// ties by their ids before; finds the hot rows of each part. Commits to the storage, for each node
/// table, its original ids, and for each part and table its hot ids and their hotness, and a working
/// array; arrays that an earlier run completed are reused.
/// The result's book has its offsets and the number of parts, and nothing else.
/// Errors: those of the storage.
Result<data::Partitions> order_nodes(
    const AssignInput& input,
    const Assignment& assignment,
    const OrderOptions& options,
    const AssignTools& tools
);

/// By node table: the new id of each node, by its id before.
std::vector<std::vector<int64_t>> new_ids_of(const data::Partitions& partitions);

}  // namespace gnn::partition
