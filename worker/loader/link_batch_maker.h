#pragma once

#include "common/executor.h"
#include "common/result.h"
#include "worker/loader/batch_pipeline.h"
#include "worker/loader/device_copy.h"
#include "worker/loader/epoch.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/loader/loader_stats.h"
#include "worker/loader/mini_batch.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/core/negatives.h"
#include "worker/sampling/subgraph.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
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
  BatchCost cost{};             ///< of making it
};

void for_each_tensor(LinkMiniBatch& batch, VisitTensor visit);

/// The links that batches are made of, and what is set against them.
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

/// How links become batches.
struct LinkBatchOptions {
  int64_t num_node_types = 1;
  LinkRelations relations{};
  /// The batch's links pass no messages in it, in neither direction (DGL's exclude_seed_edges).
  bool exclude_seed_edges = false;
};

/// Makes batches of links: item -> draw negatives -> sample around the ends -> fetch features. A batch
/// is a function of its place, whoever makes it.
/// Threads: any.
class LinkBatchMaker : public std::enable_shared_from_this<LinkBatchMaker> {
 public:
  using Batch = LinkMiniBatch;
  using Done = BatchPipeline<LinkMiniBatch>::Done;

  /// `features` per node type, null where there are none; may be empty.
  /// Errors: Configuration and Data, naming the option or the first bad id.
  [[nodiscard]] static Result<std::shared_ptr<const LinkBatchMaker>> create(
      const LinkBatchOptions& options,
      LinkItems links,
      std::shared_ptr<sampling::Sampler> sampler,
      std::vector<std::shared_ptr<FeatureFetcher>> features
  );

  [[nodiscard]] int64_t num_items() const;
  [[nodiscard]] const sampling::Sampler& sampler() const { return *sampler_; }

  /// Calls `done` with the batch at `place`, whose items are read before this returns, or with why
  /// there is none: before it returns, or in a task of `executor`.
  void make(const BatchPlace& place, const Executor& executor, const Done& done) const;

 private:
  struct Ends;

  LinkBatchMaker(
      const LinkBatchOptions& options,
      LinkItems links,
      std::shared_ptr<sampling::Sampler> sampler,
      std::vector<std::shared_ptr<FeatureFetcher>> features
  );

  using Making = loader::Making<LinkMiniBatch>;

  [[nodiscard]] Ends ends_of(const BatchPlace& place, LinkMiniBatch& batch) const;
  [[nodiscard]] std::vector<at::Tensor> seeds_of(const Ends& ends, LinkMiniBatch& batch) const;
  [[nodiscard]] std::vector<sampling::ExcludedEdges> excluded(
      const Ends& ends, const LinkMiniBatch& batch
  ) const;
  void fetch(const std::shared_ptr<Making>& making) const;

  const LinkBatchOptions options_;
  const LinkItems links_;
  const std::shared_ptr<sampling::Sampler> sampler_;
  const std::vector<std::shared_ptr<FeatureFetcher>> features_;
};

/// Adds a batch that was made.
void add(LoaderStats& stats, const LinkMiniBatch& batch);

}  // namespace gnn::loader
