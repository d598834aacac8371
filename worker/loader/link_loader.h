#pragma once

#include "common/result.h"
#include "worker/loader/batch_pipeline.h"
#include "worker/loader/device_copy.h"
#include "worker/loader/epoch.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/loader/loader_stats.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/core/item_sampler.h"
#include "worker/sampling/core/negatives.h"
#include "worker/sampling/subgraph.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gnn::loader {

/// Links with the neighbourhood of their ends, as one training step consumes them: first the batch's
/// own links, then its negatives. All tensors are on the loader's device.
struct LinkMiniBatch {
  /// Per node type: [nodes, F], the stored dtype; undefined without features.
  std::vector<at::Tensor> x;
  /// The seeds of a type are the distinct ends of that type, ascending.
  sampling::SampledSubgraph subgraph;
  /// int64 [P + N]: the ends of each link, as rows of the last block's destinations of their type.
  at::Tensor source_rows;
  at::Tensor destination_rows;
  at::Tensor labels;            ///< float [P + N]: 1 = link, 0 = none
  int64_t positives = 0;        ///< the dealt links, P: their labels may be 0
  int64_t false_negatives = 0;  ///< drawn negatives that are training links, where they are avoided
  int64_t batch_index = 0;      ///< this rank's batch in the epoch, from 0
};

void move_tensors(LinkMiniBatch& batch, const DeviceCopy& copy);

/// The links that a loader deals, and what it sets against them.
struct LinkItems {
  at::Tensor pairs;     ///< int64 [E, 2]: source and destination, global ids
  at::Tensor ids{};     ///< int64 [M]: the rows of `pairs` that are dealt; undefined: all
  at::Tensor labels{};  ///< float [M], or undefined: all 1
  /// int64 [M, K, 2], each dealt link's own negatives, or undefined. A batch of P has P * K, in the
  /// order of its links.
  at::Tensor negatives{};
  /// Negatives drawn anew for each batch, instead; null: none.
  std::shared_ptr<const sampling::core::NegativeSampler> sampler{};
};

/// A link's edge types in the sampler.
struct LinkRelations {
  int64_t source_type = 0;
  int64_t destination_type = 0;
  /// Places in the sampler's list of relations, of the links and of the same edges backwards; -1:
  /// not sampled. For undirected links of one type both are the same.
  int64_t forward = -1;
  int64_t backward = -1;
};

struct LinkLoaderOptions {
  /// The loader sets num_items; seed also keys the neighbour draws and the negatives.
  sampling::core::ItemSamplerOptions items;
  int64_t num_node_types = 1;
  LinkRelations relations;
  /// The batch's links pass no messages in it, in neither direction (DGL's exclude_seed_edges).
  bool exclude_seed_edges = false;
  int64_t num_threads = 1;       ///< threads that make mini-batches; 0 = made inside next()
  int64_t concurrency = 1;       ///< batches under way per thread, while others' nodes answer
  int64_t prefetch = 2;          ///< batches ready or under way beyond those
  at::Device device = at::kCPU;  ///< where next() delivers
};

/// Feeds training on links: deal -> draw negatives -> sample around the ends -> fetch features ->
/// copy to device, ahead of the reader, on `num_threads` threads. Batches come in order, and their
/// content depends neither on num_threads nor on concurrency and prefetch.
/// Threads: one reader.
class LinkLoader {
 public:
  /// `features` per node type, null where there are none; may be empty.
  /// Errors: Configuration and Data, naming the option or the first bad id.
  [[nodiscard]] static Result<std::unique_ptr<LinkLoader>> create(
      const LinkLoaderOptions& options,
      LinkItems links,
      std::shared_ptr<sampling::Sampler> sampler,
      std::vector<std::shared_ptr<FeatureFetcher>> features
  );

  /// Batches of this rank in each epoch, and of the rank that has the most.
  [[nodiscard]] int64_t num_batches() const { return items_.num_batches(); }
  [[nodiscard]] int64_t max_batches() const { return items_.max_batches(); }

  /// Starts an epoch at batch `first_batch` (where a resumed run goes on) and ends the one under
  /// way. Resets stats().
  Status start_epoch(int64_t epoch, int64_t first_batch = 0);
  /// The next batch, or std::nullopt after the epoch's last.
  /// Errors: those of the stages; Cancelled after stop().
  [[nodiscard]] Result<std::optional<LinkMiniBatch>> next() { return pipeline_.next(); }
  /// Ends the epoch under way from any thread: a waiting next() returns Cancelled.
  void stop() { pipeline_.end_epoch(); }

  [[nodiscard]] LoaderStats stats() const;

 private:
  struct Ends;

  LinkLoader(
      const LinkLoaderOptions& options,
      const sampling::core::ItemSampler& items,
      LinkItems links,
      std::shared_ptr<sampling::Sampler> sampler,
      std::vector<std::shared_ptr<FeatureFetcher>> features
  );

  using Making = loader::Making<LinkMiniBatch>;

  void sample(const std::shared_ptr<Making>& making, const BatchPlace& place);
  [[nodiscard]] Ends ends_of(const BatchPlace& place, LinkMiniBatch& batch) const;
  [[nodiscard]] std::vector<at::Tensor> seeds_of(const Ends& ends, LinkMiniBatch& batch) const;
  [[nodiscard]] std::vector<sampling::ExcludedEdges> excluded(
      const Ends& ends, const LinkMiniBatch& batch
  ) const;
  void fetch(const std::shared_ptr<Making>& making);

  const LinkLoaderOptions options_;
  const sampling::core::ItemSampler items_;
  const LinkItems links_;
  const std::shared_ptr<sampling::Sampler> sampler_;
  const std::vector<std::shared_ptr<FeatureFetcher>> features_;
  BatchPipeline<LinkMiniBatch> pipeline_;  // last: its threads use all of the above
};

}  // namespace gnn::loader
