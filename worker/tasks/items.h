#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/comm/rank_groups.h"
#include "worker/graph/dataset.h"
#include "worker/sampling/core/item_sampler.h"
#include "worker/servers/batch_request.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gnn::tasks {

/// What batches are for. The two are counted apart: caches are made for training.
using servers::Use;

/// The ranks that a job's items are dealt to.
struct Ranks {
  int64_t count = 1;
  int64_t per_node = 1;
};
[[nodiscard]] inline Ranks ranks_of(const comm::RankGroups& groups) {
  return {.count = groups.all->world_size(), .per_node = groups.node->world_size()};
}

/// How a spec deals nodes and links, by default each rank a slice.
[[nodiscard]] inline api::Sharding sharding_of(const api::Training& training) {
  return training.sharding.value_or(api::Sharding::Slice);
}

/// How a spec deals its training items. The caller sets rank and num_items.
[[nodiscard]] sampling::core::ItemSamplerOptions train_item_options(
    const api::Training& training, api::Sharding sharding, const Ranks& ranks
);

/// How it deals those of an evaluation; likewise. Only Owner matters there: elsewhere each rank takes
/// its slice.
[[nodiscard]] sampling::core::ItemSamplerOptions evaluation_item_options(
    const api::Training& training, api::Part part, const Ranks& ranks
);

/// Those for a part of the split and a use.
[[nodiscard]] inline sampling::core::ItemSamplerOptions item_options(
    const api::Training& training, const Ranks& ranks, api::Part part, Use use
) {
  return use == Use::Training ? train_item_options(training, sharding_of(training), ranks)
                              : evaluation_item_options(training, part, ranks);
}

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
