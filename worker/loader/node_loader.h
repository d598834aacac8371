#pragma once

#include "common/result.h"
#include "worker/graph/csc_graph.h"
#include "worker/loader/batch_pipeline.h"
#include "worker/loader/epoch.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/loader/loader_stats.h"
#include "worker/loader/mini_batch.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/core/item_sampler.h"
#include "worker/sampling/neighbor.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace gnn::loader {

struct NodeLoaderOptions {
  sampling::NeighborSamplerOptions sampling;
  /// The loader sets num_items; seed also keys the neighbour draws.
  sampling::core::ItemSamplerOptions items;
  int64_t num_threads = 1;       ///< threads that make mini-batches; 0 = made inside next()
  int64_t concurrency = 1;       ///< batches under way per thread, while others' nodes answer
  int64_t prefetch = 2;          ///< batches ready or under way beyond those
  at::Device device = at::kCPU;  ///< where next() delivers
};

/// Feeds training: item -> sample -> fetch features -> copy to device, ahead of the reader, on
/// `num_threads` threads. Batches come in order, and their content depends neither on num_threads
/// nor on concurrency and prefetch.
/// Threads: one reader.
class NodeLoader {
 public:
  /// The whole graph, features and labels in this process. Without `features` MiniBatch::x stays
  /// undefined.
  /// Shapes: seeds int64 [S], unique or not; labels [num_nodes, ...] or undefined.
  /// Errors: Configuration and Data, naming the option or the first bad seed.
  [[nodiscard]] static Result<std::unique_ptr<NodeLoader>> create(
      const NodeLoaderOptions& options,
      const graph::CscGraph& graph,
      const at::Tensor& seeds,
      std::shared_ptr<FeatureFetcher> features,
      const at::Tensor& labels
  );
  /// Any sampler and fetchers, e.g. such that ask other nodes. `labels` may be null.
  [[nodiscard]] static Result<std::unique_ptr<NodeLoader>> create(
      const NodeLoaderOptions& options,
      std::shared_ptr<sampling::Sampler> sampler,
      const at::Tensor& seeds,
      std::shared_ptr<FeatureFetcher> features,
      std::shared_ptr<FeatureFetcher> labels
  );

  /// Batches of this rank in each epoch, and of the rank that has the most.
  [[nodiscard]] int64_t num_batches() const { return items_.num_batches(); }
  [[nodiscard]] int64_t max_batches() const { return items_.max_batches(); }

  /// Starts an epoch at batch `first_batch` (where a resumed run goes on) and ends the one under
  /// way. Resets stats().
  Status start_epoch(int64_t epoch, int64_t first_batch = 0);
  /// The next batch, or std::nullopt after the epoch's last.
  /// Errors: those of the stages; Cancelled after stop().
  [[nodiscard]] Result<std::optional<MiniBatch>> next() { return pipeline_.next(); }
  /// Ends the epoch under way from any thread: a waiting next() returns Cancelled.
  void stop() { pipeline_.end_epoch(); }

  [[nodiscard]] LoaderStats stats() const;

 private:
  NodeLoader(
      const NodeLoaderOptions& options,
      const sampling::core::ItemSampler& items,
      std::shared_ptr<sampling::Sampler> sampler,
      at::Tensor seeds,
      std::shared_ptr<FeatureFetcher> features,
      std::shared_ptr<FeatureFetcher> labels
  );

  using Making = loader::Making<MiniBatch>;

  void sample(
      const std::shared_ptr<Making>& making, const sampling::core::StreamPosition& position
  );
  void fetch(const std::shared_ptr<Making>& making);

  const sampling::core::ItemSampler items_;
  const std::shared_ptr<sampling::Sampler> sampler_;
  const at::Tensor seeds_;
  const std::shared_ptr<FeatureFetcher> features_;  // null: no features
  const std::shared_ptr<FeatureFetcher> labels_;    // null: no labels
  BatchPipeline<MiniBatch> pipeline_;               // last: its threads use all of the above
};

}  // namespace gnn::loader
