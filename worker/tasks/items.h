#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/distributed/comm/communicator.h"
#include "worker/sampling/item_sampler.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gnn::tasks {

/// How the training items of a spec are dealt to the ranks. num_items is left to the caller.
[[nodiscard]] sampling::ItemSamplerOptions train_item_options(
    const api::Training& training, api::Sharding sharding, const comm::Communicator& world
);

/// Batches of every rank in an epoch.
[[nodiscard]] Result<std::vector<int64_t>> batches_of_ranks(
    const sampling::ItemSamplerOptions& options
);

/// Before the first step: Configuration if a batch is larger than the whole set, Data naming what
/// leaves an epoch of `dataset` without a single batch.
[[nodiscard]] Status check_training_batches(
    const std::vector<int64_t>& batches,
    const std::string& dataset,
    const sampling::ItemSamplerOptions& options
);

}  // namespace gnn::tasks
