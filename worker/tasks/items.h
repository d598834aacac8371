#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/comm/communicator.h"
#include "worker/graph/dataset.h"
#include "worker/sampling/core/item_sampler.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gnn::tasks {

/// How a spec deals its training items to the ranks. The caller sets num_items.
[[nodiscard]] sampling::core::ItemSamplerOptions train_item_options(
    const api::Training& training, api::Sharding sharding, const comm::Communicator& communicator
);

/// The nodes of items, by which their owners are known.
struct ItemNodes {
  int64_t node_type = 0;
  const at::Tensor& ids;  ///< int64 [num_items]
};

/// Sets num_items and, if `sharding` is Owner, deals each item to the ranks of the nodes that hold the
/// partition of its node. `ranks_per_node` is the job's.
/// Errors: Configuration if the data set is not partitioned.
[[nodiscard]] Result<sampling::core::ItemSamplerOptions> deal(
    sampling::core::ItemSamplerOptions options,
    api::Sharding sharding,
    const graph::Dataset& dataset,
    const ItemNodes& nodes,
    int64_t ranks_per_node
);

/// The ids of a part's items.
[[nodiscard]] const at::Tensor& items_of(const graph::DataSplit& split, api::Part part);

/// How many batches each rank has in an epoch.
[[nodiscard]] Result<std::vector<int64_t>> batches_of_ranks(
    const sampling::core::ItemSamplerOptions& options
);

/// Checks before the first step that an epoch has a batch.
/// Errors: Configuration if a batch is larger than the whole set; Data saying why an epoch of
/// `dataset` has no batch.
[[nodiscard]] Status check_training_batches(
    const std::vector<int64_t>& batches,
    const std::string& dataset,
    const sampling::core::ItemSamplerOptions& options
);

}  // namespace gnn::tasks
