#pragma once

#include "common/result.h"
#include "worker/graph/csc_graph.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/item_sampler.h"
#include "worker/sampling/neighbor.h"
#include "worker/training/feature_fetcher.h"
#include "worker/training/mini_batch.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace gnn::training {

struct NodeLoaderOptions {
  sampling::NeighborSamplerOptions sampling;
  sampling::ItemSamplerOptions
      items;                ///< num_items is set by the loader; seed also keys the neighbour draws.
  int64_t num_threads = 1;  ///< Sampler threads, one mini-batch each; 0 = sample inside next().
  int64_t prefetch = 2;     ///< Batches ready or under way beyond one per thread.
  at::Device device = at::kCPU;  ///< Where next() delivers.
};

/// Where the time of an epoch went, so far. Busy seconds are summed over threads.
struct LoaderStats {
  int64_t batches = 0;
  int64_t sampled_edges = 0;
  int64_t gathered_bytes = 0;
  double sample_seconds = 0;  ///< Busy: sampling.
  double fetch_seconds = 0;   ///< Busy: features and labels.
  double copy_seconds = 0;    ///< Busy: copies to the device.
  double loader_stall_seconds =
      0;  ///< The caller of next() waited for a batch: the loader is the bottleneck.
  double consumer_stall_seconds =
      0;  ///< Sampler threads, summed, waited for room: the model is the bottleneck.
  double copy_stall_seconds = 0;  ///< The copy to a device waited for a sampled batch.
  int64_t sampler_bytes = 0;      ///< State of the sampler's threads, as of now.
};

/// Feeds training: item -> sample -> fetch features -> copy to device, ahead of the reader, on
/// `num_threads` threads. Batches come in order, and their content does not depend on num_threads
/// or prefetch. One reader.
class NodeLoader {
 public:
  /// The whole graph, features and labels in this process.
  /// Shapes: seeds int64 [S], unique or not; labels [num_nodes, ...] or undefined.
  /// Errors: Configuration and Data, naming the option or the first bad seed.
  [[nodiscard]] static Result<std::unique_ptr<NodeLoader>> create(
      const NodeLoaderOptions& options,
      const graph::CscGraph& graph,
      const at::Tensor& seeds,
      std::shared_ptr<FeatureFetcher> features,  // null: MiniBatch::x stays undefined
      const at::Tensor& labels
  );
  /// Any sampler, e.g. one that asks other machines.
  [[nodiscard]] static Result<std::unique_ptr<NodeLoader>> create(
      const NodeLoaderOptions& options,
      std::shared_ptr<sampling::Sampler> sampler,
      const at::Tensor& seeds,
      std::shared_ptr<FeatureFetcher> features,
      const at::Tensor& labels
  );
  ~NodeLoader();
  NodeLoader(const NodeLoader&) = delete;
  NodeLoader& operator=(const NodeLoader&) = delete;

  /// Batches of this rank in each epoch, and of the rank that has the most.
  [[nodiscard]] int64_t num_batches() const;
  [[nodiscard]] int64_t max_batches() const;

  /// Starts an epoch at batch `first_batch` (a resumed run's cursor); ends the one under way.
  /// Resets stats().
  Status start_epoch(int64_t epoch, int64_t first_batch = 0);
  /// The next batch, or std::nullopt after the epoch's last. Errors: what a stage met, Cancelled
  /// after stop().
  [[nodiscard]] Result<std::optional<MiniBatch>> next();
  /// Ends the epoch under way from any thread: a waiting next() returns Cancelled.
  void stop();

  [[nodiscard]] LoaderStats stats() const;

 private:
  class Impl;
  explicit NodeLoader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gnn::training
