#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/comm/rank_groups.h"
#include "worker/graph/dataset.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/loader/node_batch_maker.h"
#include "worker/loader/node_loader.h"
#include "worker/progress/progress_sink.h"
#include "worker/sampling/core/item_sampler.h"
#include "worker/sampling/device/device_graph.h"
#include "worker/tasks/device_rows.h"
#include "worker/tasks/items.h"
#include "worker/tasks/part_inputs.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace gnn::tasks {

/// How the items of `part` are dealt in a job that classifies nodes; the caller sets the rank.
/// Errors: those of deal().
[[nodiscard]] Result<sampling::core::ItemSamplerOptions> node_items(
    const graph::Dataset& dataset,
    const api::Training& training,
    const Ranks& ranks,
    api::Part part,
    Use use
);

struct NodeBatchesOptions {
  api::Sampling sampling;
  api::Training training;
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

/// Makes the batches of a job that classifies nodes of one homogeneous graph: sampled neighbourhoods,
/// for any of its ranks.
/// Threads: create() and maker() by one at a time; the rest, and makers, by any.
class NodeBatches {
 public:
  using Batch = loader::MiniBatch;
  using Maker = loader::NodeBatchMaker;
  using Loader = loader::NodeLoader;
  using LoaderOptions = loader::NodeLoaderOptions;

  /// Collective where data is partitioned.
  /// Errors: Configuration and Data, naming the field or the item; those of PartInputs::open().
  [[nodiscard]] static Result<std::shared_ptr<const NodeBatches>> create(
      graph::Dataset dataset, const comm::RankGroups& groups, const NodeBatchesOptions& options
  );

  [[nodiscard]] const graph::Dataset& dataset() const { return dataset_; }
  /// Null where the whole data set is here.
  [[nodiscard]] PartInputs* parts() const { return parts_.get(); }
  [[nodiscard]] const at::Tensor& ids_of(api::Part part) const {
    return items_of(dataset_.split, part);
  }
  [[nodiscard]] bool has(api::Part part) const { return ids_of(part).numel() > 0; }
  [[nodiscard]] Result<sampling::core::ItemSamplerOptions> items(api::Part part, Use use) const {
    return node_items(dataset_, options_.training, options_.ranks, part, use);
  }
  /// `under_way`: the most batches that are sampled at the same time.
  [[nodiscard]] Result<std::shared_ptr<const Maker>> maker(
      api::Part part, Use use, int64_t under_way = std::numeric_limits<int64_t>::max()
  ) const;
  /// Of graph and features.
  [[nodiscard]] progress::MemoryByOwner memory() const;

 private:
  NodeBatches(graph::Dataset dataset, const NodeBatchesOptions& options);

  Status open_parts(const comm::RankGroups& groups);
  Status open_rows(const comm::RankGroups& groups);
  [[nodiscard]] TrainingItems training_items() const;
  [[nodiscard]] Result<std::shared_ptr<sampling::Sampler>> sampler(
      api::Part part, Use use, int64_t under_way
  ) const;

  const graph::Dataset dataset_;
  const NodeBatchesOptions options_;
  std::unique_ptr<PartInputs> parts_;
  std::shared_ptr<loader::FeatureFetcher> features_;  // null with parts_
  std::shared_ptr<loader::FeatureFetcher> labels_;    // null with parts_
};

}  // namespace gnn::tasks
