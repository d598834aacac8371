#pragma once

#include "common/executor.h"
#include "common/result.h"
#include "worker/loader/batch_pipeline.h"
#include "worker/loader/checks.h"
#include "worker/loader/loader_stats.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/core/item_sampler.h"
#include "worker/sampling/core/rng.h"

#include <chrono>
#include <cstdint>
#include <memory>
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

/// A batch under way, which its stages pass on.
template <class Batch>
struct Making {
  using Done = typename BatchPipeline<Batch>::Done;

  Making(Executor given_executor, Done given_done)
      : executor(std::move(given_executor)), done(std::move(given_done)) {}

  /// Seconds since the last call, or since the start.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(lap_start, now)).count();
  }

  const Executor executor;
  const Done done;
  Batch batch;
  std::chrono::steady_clock::time_point lap_start = std::chrono::steady_clock::now();
};

/// Starts an epoch of this rank's items: `make(const BatchPlace&, executor, done)` begins each batch
/// of the pipeline; see BatchPipeline::Make.
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
      [make = std::move(make),
       items = sampler.epoch(start.epoch),
       position](int64_t index, const Executor& executor, const auto& done) {
        BatchPlace place{.items = items.batch(index), .position = position, .index = index};
        place.position.batch = static_cast<uint64_t>(items.stream(index));
        make(place, executor, done);
      }
  );
  return {};
}

/// `done`, which the pipeline counts a batch before.
template <class Batch>
[[nodiscard]] typename BatchPipeline<Batch>::Done counted(
    BatchPipeline<Batch>& pipeline, typename BatchPipeline<Batch>::Done done
) {
  return [&pipeline, done = std::move(done)](Result<Batch> batch) {
    if (batch) pipeline.add([&](LoaderStats& stats) { add(stats, *batch); });
    done(std::move(batch));
  };
}

/// The pipeline's stats with the state that the sampler keeps for its batches.
template <class Batch>
[[nodiscard]] LoaderStats stats_of(
    const BatchPipeline<Batch>& pipeline, const sampling::Sampler& sampler
) {
  LoaderStats stats = pipeline.stats();
  stats.sampler_bytes = sampler.state_bytes_per_batch() * pipeline.under_way();
  return stats;
}

}  // namespace gnn::loader
