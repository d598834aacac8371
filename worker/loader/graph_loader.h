#pragma once

#include "common/result.h"
#include "worker/graph/dataset.h"
#include "worker/loader/batch_pipeline.h"
#include "worker/loader/device_copy.h"
#include "worker/loader/epoch.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/loader/graph_batch.h"
#include "worker/loader/loader_stats.h"
#include "worker/sampling/core/item_sampler.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace gnn::loader {

/// Several small graphs with their features. All tensors but graphs.node_ids are on the loader's
/// device.
struct GraphMiniBatch {
  GraphBatch graphs;
  at::Tensor x;             ///< [nodes, F], the stored dtype
  int64_t batch_index = 0;  ///< this rank's batch in the epoch, from 0
};

void for_each_tensor(GraphMiniBatch& batch, VisitTensor visit);

struct GraphLoaderOptions {
  sampling::core::ItemSamplerOptions items;  ///< the loader sets num_items
  int64_t num_threads = 1;       ///< loading threads, one batch each; 0 = load inside next()
  int64_t prefetch = 2;          ///< batches ready or under way beyond one per thread
  at::Device device = at::kCPU;  ///< where next() delivers
  RowType row_type = RowType::AsStored;  ///< of the features
};

/// Feeds training on a set of small graphs: join graphs -> gather features -> copy to device, ahead
/// of the reader, on `num_threads` threads. Batches come in order, and their content depends
/// neither on num_threads nor on prefetch.
/// Threads: one reader.
class GraphLoader {
 public:
  /// `dataset` has graphs and node features.
  /// Shapes: graph_ids int64 [K], CPU, contiguous.
  /// Errors: Configuration naming the option; Data naming the first bad id.
  [[nodiscard]] static Result<std::unique_ptr<GraphLoader>> create(
      const GraphLoaderOptions& options, graph::Dataset dataset, at::Tensor graph_ids
  );

  /// Batches of this rank in each epoch.
  [[nodiscard]] int64_t num_batches() const { return items_.num_batches(); }

  /// Starts an epoch at batch `first_batch` (where a resumed run goes on) and ends the one under
  /// way. Resets stats().
  Status start_epoch(int64_t epoch, int64_t first_batch = 0);
  /// The next batch, or std::nullopt after the epoch's last.
  /// Errors: those of the stages; Cancelled after stop().
  [[nodiscard]] Result<std::optional<GraphMiniBatch>> next() { return pipeline_.next(); }
  /// Ends the epoch under way from any thread: a waiting next() returns Cancelled.
  void stop() { pipeline_.end_epoch(); }

  [[nodiscard]] LoaderStats stats() const { return pipeline_.stats(); }

 private:
  GraphLoader(
      const GraphLoaderOptions& options,
      const sampling::core::ItemSampler& items,
      graph::Dataset dataset,
      at::Tensor graph_ids,
      LocalFeatureFetcher features
  );

  Result<GraphMiniBatch> make(const BatchPlace& place);

  const sampling::core::ItemSampler items_;
  const graph::Dataset dataset_;
  const at::Tensor graph_ids_;
  const LocalFeatureFetcher features_;
  BatchPipeline<GraphMiniBatch> pipeline_;  // last: its threads use all of the above
};

}  // namespace gnn::loader
