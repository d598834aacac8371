#pragma once

#include "common/api/gnn_job.h"
#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/comm/rank_groups.h"
#include "worker/graph/dataset.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/progress/progress_sink.h"
#include "worker/progress/remote_data.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/device/device_graph.h"
#include "worker/shards/part.h"
#include "worker/shards/part_sampler.h"
#include "worker/shards/shards.h"
#include "worker/tasks/data_network.h"
#include "worker/tasks/device_rows.h"
#include "worker/tasks/hot_rows.h"
#include "worker/tasks/items.h"
#include "worker/training/part_layer_wise.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace gnn::tasks {

/// Whether nodes of a job with this placement read data from each other.
[[nodiscard]] inline bool is_partitioned(const std::optional<api::Placement>& placement) {
  return placement && (placement->topology == api::PlacementMode::Partitioned ||
                       placement->features == api::PlacementMode::Partitioned);
}

/// Batches under way per sampler thread where spec.sampling.concurrency is absent.
inline constexpr int64_t kDefaultConcurrency = 4;
/// Finished batches where spec.sampling.prefetch is absent.
inline constexpr int64_t kDefaultPrefetch = 2;

/// The place of a sampling server, which is in no group with others.
struct ServerPlace {
  int64_t part = 0;  ///< that it holds
  /// Serves `service`, and gives those who hold the other parts.
  std::function<Result<shards::Peers>(std::shared_ptr<const shards::Service> service)> connect;
};

/// How a rank, or a server, reads data that is partitioned.
struct PartitionedData {
  api::Placement placement;
  DataNetworkOptions network;
  ProgressBar& loading;  ///< of finding hot rows and filling caches
  /// Whether lists and split are those that the data set was partitioned with.
  bool as_partitioned = false;
  int64_t num_cpus = 1;                                        ///< that this rank may keep busy
  int64_t memory_bytes = std::numeric_limits<int64_t>::max();  ///< that this process may use
  /// Is told where to read what comes from other nodes; may be null.
  progress::ProgressSink* progress = nullptr;
  /// The device that gathers feature rows; nothing: the host does.
  std::optional<DeviceFeatures> device_features{};
  /// Of a server; `network` counts for nothing then.
  std::optional<ServerPlace> server{};

  [[nodiscard]] bool has_own_lists_alone() const {
    return placement.topology == api::PlacementMode::Partitioned;
  }
};

/// The samplers and rows of a rank, or a server, whose node reads one partition of the data set itself, and asks
/// other nodes for the rest.
/// Threads: one; what it gives may be used by any.
class PartInputs {
 public:
  /// Makes samplers over the lists that the part has, in the same order on all ranks. The first one
  /// draws training batches.
  using MakeSamplers = std::function<Result<std::vector<shards::SamplerSpec>>(const shards::Part&)>;

  /// Serves the node's partition on local rank 0, connects to other nodes, and fills the caches of
  /// remote rows: those that training on `items` reads most. Collective.
  /// Errors: those of shards::Shards and DataNetwork.
  [[nodiscard]] static Result<std::unique_ptr<PartInputs>> open(
      const graph::Dataset& dataset,
      const PartitionedData& data,
      const MakeSamplers& make_samplers,
      const TrainingItems& items,
      const comm::RankGroups& groups
  );

  [[nodiscard]] const shards::Shards& shards() const { return *shards_; }
  /// Of that number; only where the topology is Partitioned. The device that has `device_graph` draws
  /// from the part's lists and relabels, within `limits`; null: the CPU does.
  /// Errors: those of RemoteSampler::create() and DeviceHopSampler::create().
  [[nodiscard]] Result<std::shared_ptr<sampling::Sampler>> sampler(
      size_t number,
      Use use,
      const std::shared_ptr<sampling::device::DeviceGraph>& device_graph,
      sampling::device::BatchLimits limits
  ) const;
  /// Null where the type has none.
  [[nodiscard]] std::shared_ptr<loader::FeatureFetcher> features(int64_t node_type, Use use) const;
  /// Bytes of the lists, and of the feature rows with their caches, that this rank reads itself.
  [[nodiscard]] int64_t graph_bytes() const;
  [[nodiscard]] int64_t feature_bytes() const;

  /// What a layer-wise evaluation reads of a homogeneous graph.
  [[nodiscard]] training::PartOfGraph graph() const;

  /// What this rank has read from other nodes, and has sent them.
  /// Threads: any.
  [[nodiscard]] progress::RemoteData remote_data() const;
  /// What the training batches of all ranks have read in so many steps. Collective.
  [[nodiscard]] Result<progress::RemoteSummary> remote_summary(int64_t steps) const;

  /// Returns once no rank asks for anything any more, so that all may leave. Collective.
  [[nodiscard]] Status leave() { return network_ == nullptr ? Status() : network_->leave(); }

  ~PartInputs() {
    if (meter_ != nullptr) meter_->stop();
  }
  PartInputs(const PartInputs&) = delete;
  PartInputs& operator=(const PartInputs&) = delete;

 private:
  explicit PartInputs(comm::RankGroups groups) : groups_(std::move(groups)) {
    for (auto& bytes : hop_bytes_) bytes = std::make_shared<std::atomic<int64_t>>(0);
  }

  const comm::RankGroups groups_;
  bool serves_ = false;  // on local rank 0
  // Of replies, by use.
  std::array<std::shared_ptr<std::atomic<int64_t>>, 2> hop_bytes_;
  std::unique_ptr<shards::Shards> shards_;
  std::unique_ptr<DataNetwork>
      network_;  // null on a server, and where nobody has anything to ask for
  std::atomic<bool> connected_ = false;  // shards_ may be counted
  size_t num_node_types_ = 0;
  size_t num_edge_types_ = 0;
  std::shared_ptr<progress::RemoteMeter> meter_;
};

/// The data set with the lists of the part's own nodes alone, for samplers over parts. Nothing but its
/// edge types' graphs differs.
[[nodiscard]] Result<graph::Dataset> with_own_lists(
    const graph::Dataset& dataset, const shards::Part& part
);

}  // namespace gnn::tasks
