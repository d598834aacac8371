#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/comm/rank_groups.h"
#include "worker/graph/dataset.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/loader/link_batch_maker.h"
#include "worker/loader/link_loader.h"
#include "worker/progress/progress_sink.h"
#include "worker/sampling/core/item_sampler.h"
#include "worker/sampling/core/negatives.h"
#include "worker/sampling/device/device_graph.h"
#include "worker/tasks/device_rows.h"
#include "worker/tasks/items.h"
#include "worker/tasks/link_graph.h"
#include "worker/tasks/link_split.h"
#include "worker/tasks/part_inputs.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace gnn::tasks {

/// The links of a data set, as they are split.
struct SplitDataset {
  graph::Dataset dataset;  ///< with links, and all edge types that the model reads
  LinkSplit split;
};

/// As item_options(), for links.
[[nodiscard]] sampling::core::ItemSamplerOptions link_item_options(
    const api::Training& training, const Ranks& ranks, api::Part part, Use use
);

/// How the items of `part` are dealt in a job that predicts links, in evaluations by AUC and Hits with
/// their negatives; the caller sets the rank.
/// Errors: those of deal().
[[nodiscard]] Result<sampling::core::ItemSamplerOptions> link_items(
    const SplitDataset& data,
    const api::Training& training,
    const Ranks& ranks,
    api::Part part,
    Use use
);

/// What a model of links reads of a data set.
struct LinkReads {
  std::vector<int64_t> edge_types;  ///< nn::LinkModel::reads()
  std::vector<bool> features;       ///< per node type: feature rows, not embeddings
};

struct LinkBatchesOptions {
  api::Sampling sampling;
  api::Training training;
  uint64_t split_seed = 0;  ///< also of the negatives to rank against
  Ranks ranks{};
  /// Where nodes read data from each other; nothing: the whole data set is here.
  std::optional<PartitionedData> partitioned{};
  /// Where the feature rows of a batch are gathered.
  loader::HostMemory memory = loader::HostMemory::Pageable;
  /// The device that gathers them, instead; nothing: the host does.
  std::optional<DeviceFeatures> device_features{};
  /// Where a device reads the graph, which samples it; null: CPUs do.
  std::shared_ptr<sampling::device::DeviceGraph> device_graph{};
};

/// Makes the batches of a job that predicts links: links, drawn negatives and the sampled
/// neighbourhoods of their ends, for any of its ranks.
/// Threads: create() and maker() by one at a time; the rest, and makers, by any.
class LinkBatches {
 public:
  using Batch = loader::LinkMiniBatch;
  using Maker = loader::LinkBatchMaker;
  using Loader = loader::LinkLoader;
  using LoaderOptions = loader::LinkLoaderOptions;

  /// Collective where data is partitioned.
  /// Errors: Configuration and Data, naming the field or the item; those of PartInputs::open().
  [[nodiscard]] static Result<std::shared_ptr<const LinkBatches>> create(
      SplitDataset data,
      LinkReads reads,
      const comm::RankGroups& groups,
      const LinkBatchesOptions& options
  );

  [[nodiscard]] const graph::Dataset& dataset() const { return data_.dataset; }
  /// Null where the whole data set is here.
  [[nodiscard]] PartInputs* parts() const { return parts_.get(); }
  [[nodiscard]] bool has(api::Part part) const { return ids_of(data_.split, part).numel() > 0; }
  [[nodiscard]] Result<sampling::core::ItemSamplerOptions> items(api::Part part, Use use) const {
    return link_items(data_, options_.training, options_.ranks, part, use);
  }
  /// `under_way`: the most batches that are sampled at the same time.
  [[nodiscard]] Result<std::shared_ptr<const Maker>> maker(
      api::Part part, Use use, int64_t under_way = std::numeric_limits<int64_t>::max()
  ) const;
  /// Of graph and features.
  [[nodiscard]] progress::MemoryByOwner memory() const;

 private:
  LinkBatches(SplitDataset data, LinkReads reads, const LinkBatchesOptions& options);

  [[nodiscard]] const graph::EdgeTypeData& link_type() const {
    return data_.dataset.edge_types[static_cast<size_t>(data_.dataset.links->edge_type)];
  }
  [[nodiscard]] TrainingItems training_links() const;
  [[nodiscard]] sampling::NeighborSamplerOptions sampling_of(api::Part part) const;
  [[nodiscard]] std::vector<sampling::Relation> relations_of(api::Part part) const;
  [[nodiscard]] Result<std::shared_ptr<sampling::Sampler>> sampler_for(
      api::Part part, Use use, int64_t under_way
  ) const;
  [[nodiscard]] Result<std::vector<shards::SamplerSpec>> part_samplers(const shards::Part& part);
  Status open_parts(const comm::RankGroups& groups);
  [[nodiscard]] Result<std::shared_ptr<const sampling::core::NegativeSampler>> negative_sampler(
  ) const;
  [[nodiscard]] Result<loader::LinkItems> training_items() const;
  [[nodiscard]] Result<loader::LinkItems> held_out(api::Part part) const;
  Status make_features(const comm::RankGroups& groups);
  Status make_device_features(const comm::RankGroups& groups);

  const SplitDataset data_;
  const LinkReads reads_;
  const LinkBatchesOptions options_;
  LinkGraph graph_;
  std::unique_ptr<PartInputs> parts_;
  std::vector<std::shared_ptr<loader::FeatureFetcher>> features_;  // of training batches
  std::vector<std::shared_ptr<loader::FeatureFetcher>> evaluation_features_;
};

}  // namespace gnn::tasks
