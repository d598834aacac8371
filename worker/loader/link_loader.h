#pragma once

#include "common/result.h"
#include "worker/loader/batch_pipeline.h"
#include "worker/loader/batch_source.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/loader/link_batch_maker.h"
#include "worker/loader/loader_stats.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/core/item_sampler.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gnn::loader {

struct LinkLoaderOptions {
  /// The loader sets num_items; seed also keys the neighbour draws and the negatives.
  sampling::core::ItemSamplerOptions items{};
  LinkBatchOptions batches{};
  int64_t num_threads = 1;  ///< threads that make mini-batches; 0 = made inside next()
  int64_t concurrency = 1;  ///< batches under way per thread, while others' nodes answer
  int64_t prefetch = 2;     ///< batches ready or under way beyond those
  std::optional<int64_t> channel_bytes = {};  ///< as PipelineOptions::channel_bytes
  at::Device device = at::kCPU;               ///< where next() delivers
};

/// Feeds training on links: deal -> LinkBatchMaker -> copy to device, ahead of the reader, on
/// `num_threads` threads. Batches come in order, and their content depends neither on num_threads nor
/// on concurrency and prefetch.
/// Threads: one reader.
class LinkLoader final : public BatchSource<LinkMiniBatch> {
 public:
  /// As LinkBatchMaker::create().
  [[nodiscard]] static Result<std::unique_ptr<LinkLoader>> create(
      const LinkLoaderOptions& options,
      LinkItems links,
      std::shared_ptr<sampling::Sampler> sampler,
      std::vector<std::shared_ptr<FeatureFetcher>> features
  );
  /// Any maker; `options.batches` counts for nothing.
  [[nodiscard]] static Result<std::unique_ptr<LinkLoader>> create(
      const LinkLoaderOptions& options, std::shared_ptr<const LinkBatchMaker> maker
  );

  [[nodiscard]] int64_t num_batches() const override { return items_.num_batches(); }
  /// Batches of the rank that has the most.
  [[nodiscard]] int64_t max_batches() const { return items_.max_batches(); }

  Status start_epoch(int64_t epoch, int64_t first_batch = 0) override;
  [[nodiscard]] Result<std::optional<LinkMiniBatch>> next() override { return pipeline_.next(); }
  void stop() override { pipeline_.end_epoch(); }

  [[nodiscard]] LoaderStats stats() const override;

 private:
  LinkLoader(
      const LinkLoaderOptions& options,
      const sampling::core::ItemSampler& items,
      std::shared_ptr<const LinkBatchMaker> maker
  );

  const sampling::core::ItemSampler items_;
  const std::shared_ptr<const LinkBatchMaker> maker_;
  BatchPipeline<LinkMiniBatch> pipeline_;  // last: its threads use all of the above
};

}  // namespace gnn::loader
