#pragma once

#include "common/result.h"
#include "worker/graph/csc_graph.h"
#include "worker/loader/batch_pipeline.h"
#include "worker/loader/batch_source.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/loader/loader_stats.h"
#include "worker/loader/mini_batch.h"
#include "worker/loader/node_batch_maker.h"
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
  sampling::NeighborSamplerOptions sampling{};
  /// The loader sets num_items; seed also keys the neighbour draws.
  sampling::core::ItemSamplerOptions items{};
  int64_t num_threads = 1;  ///< threads that make mini-batches; 0 = made inside next()
  int64_t concurrency = 1;  ///< batches under way per thread, while others' nodes answer
  int64_t prefetch = 2;     ///< batches ready or under way beyond those
  std::optional<int64_t> channel_bytes = {};  ///< as PipelineOptions::channel_bytes
  at::Device device = at::kCPU;               ///< where next() delivers
};

/// Feeds training: item -> NodeBatchMaker -> copy to device, ahead of the reader, on `num_threads`
/// threads. Batches come in order, and their content depends neither on num_threads
/// nor on concurrency and prefetch.
/// Threads: one reader.
class NodeLoader final : public BatchSource<MiniBatch> {
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

  /// Any maker; `options.sampling` counts for nothing.
  [[nodiscard]] static Result<std::unique_ptr<NodeLoader>> create(
      const NodeLoaderOptions& options, std::shared_ptr<const NodeBatchMaker> maker
  );

  [[nodiscard]] int64_t num_batches() const override { return items_.num_batches(); }
  /// Batches of the rank that has the most.
  [[nodiscard]] int64_t max_batches() const { return items_.max_batches(); }

  Status start_epoch(int64_t epoch, int64_t first_batch = 0) override;
  [[nodiscard]] Result<std::optional<MiniBatch>> next() override { return pipeline_.next(); }
  void stop() override { pipeline_.end_epoch(); }

  [[nodiscard]] LoaderStats stats() const override;

 private:
  NodeLoader(
      const NodeLoaderOptions& options,
      const sampling::core::ItemSampler& items,
      std::shared_ptr<const NodeBatchMaker> maker
  );

  const sampling::core::ItemSampler items_;
  const std::shared_ptr<const NodeBatchMaker> maker_;
  BatchPipeline<MiniBatch> pipeline_;  // last: its threads use all of the above
};

}  // namespace gnn::loader
