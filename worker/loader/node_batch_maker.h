#pragma once

#include "common/executor.h"
#include "common/result.h"
#include "worker/loader/batch_pipeline.h"
#include "worker/loader/epoch.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/loader/loader_stats.h"
#include "worker/loader/mini_batch.h"
#include "worker/sampling/async_sampler.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace gnn::loader {

/// Makes batches of nodes: item -> sample -> fetch features and labels. A batch is a function of its
/// place, whoever makes it.
/// Threads: any.
class NodeBatchMaker : public std::enable_shared_from_this<NodeBatchMaker> {
 public:
  using Batch = MiniBatch;
  using Done = BatchPipeline<MiniBatch>::Done;

  /// `features` and `labels` may be null: then the batches have none.
  /// Shapes: seeds int64 [S], unique or not: the items.
  [[nodiscard]] static std::shared_ptr<const NodeBatchMaker> create(
      std::shared_ptr<sampling::Sampler> sampler,
      at::Tensor seeds,
      std::shared_ptr<FeatureFetcher> features,
      std::shared_ptr<FeatureFetcher> labels
  );

  [[nodiscard]] int64_t num_items() const { return seeds_.numel(); }
  [[nodiscard]] const sampling::Sampler& sampler() const { return *sampler_; }

  /// Calls `done` with the batch at `place`, whose items are read before this returns, or with why
  /// there is none: before it returns, or in a task of `executor`.
  void make(const BatchPlace& place, const Executor& executor, const Done& done) const;

 private:
  NodeBatchMaker(
      std::shared_ptr<sampling::Sampler> sampler,
      at::Tensor seeds,
      std::shared_ptr<FeatureFetcher> features,
      std::shared_ptr<FeatureFetcher> labels
  );

  using Making = loader::Making<MiniBatch>;

  void fetch(const std::shared_ptr<Making>& making) const;

  const std::shared_ptr<sampling::Sampler> sampler_;
  const at::Tensor seeds_;
  const std::shared_ptr<FeatureFetcher> features_;
  const std::shared_ptr<FeatureFetcher> labels_;
};

/// Adds a batch that was made.
void add(LoaderStats& stats, const MiniBatch& batch);

}  // namespace gnn::loader
