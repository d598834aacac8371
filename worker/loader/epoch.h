#pragma once

#include "common/result.h"
#include "worker/loader/batch_pipeline.h"
#include "worker/loader/checks.h"
#include "worker/loader/loader_stats.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/core/item_sampler.h"
#include "worker/sampling/core/rng.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

namespace gnn::loader {

/// A batch that a loader is to make.
struct BatchPlace {
  std::span<const int64_t> items;  ///< indices into the item list
  sampling::core::StreamPosition position;
  int64_t index = 0;  ///< this rank's batch in the epoch, from 0
};

struct EpochStart {
  int64_t epoch = 0;
  int64_t first_batch = 0;
};

/// Starts an epoch of this rank's items: the pipeline's batches are those that
/// `make(const BatchPlace&)` returns, on any of its threads.
/// Errors: those of check_start().
template <class Batch, class Make>
[[nodiscard]] Status start_epoch(
    BatchPipeline<Batch>& pipeline,
    const sampling::core::ItemSampler& sampler,
    const EpochStart& start,
    Make make
) {
  GNN_RETURN_IF_ERROR(check_start(sampler, start.epoch, start.first_batch));
  const sampling::core::StreamPosition position{
      .seed = sampler.options().seed, .epoch = static_cast<uint64_t>(start.epoch)
  };
  pipeline.start_epoch(
      {start.first_batch, sampler.num_batches()},
      [make = std::move(make), items = sampler.epoch(start.epoch), position](int64_t index) {
        BatchPlace place{.items = items.batch(index), .position = position, .index = index};
        place.position.batch = static_cast<uint64_t>(items.stream(index));
        return make(place);
      }
  );
  return {};
}

/// The pipeline's stats with the state that the sampler keeps for its threads.
template <class Batch>
[[nodiscard]] LoaderStats stats_of(
    const BatchPipeline<Batch>& pipeline, const sampling::Sampler& sampler
) {
  LoaderStats stats = pipeline.stats();
  stats.sampler_bytes =
      sampler.state_bytes_per_thread() * std::max<int64_t>(1, pipeline.options().num_threads);
  return stats;
}

}  // namespace gnn::loader
