#include "worker/tasks/part_inputs.h"

#include "worker/sampling/device/device_hop_sampler.h"

#include <utility>

namespace gnn::tasks {
namespace {

shards::Held held(api::PlacementMode mode) {
  return mode == api::PlacementMode::Partitioned ? shards::Held::Own : shards::Held::Whole;
}

shards::CachePolicy policy_of(api::CachePolicy policy) {
  switch (policy) {
    case api::CachePolicy::Hotness:
      return shards::CachePolicy::Hotness;
    case api::CachePolicy::Degree:
      return shards::CachePolicy::Degree;
    case api::CachePolicy::None:
      break;
  }
  return shards::CachePolicy::None;
}

shards::CacheOptions cache_of(const api::Placement& placement) {
  if (placement.features == api::PlacementMode::Replicated)
    return {.policy = shards::CachePolicy::None};
  const api::FeatureCache cache = placement.cache.value_or(api::FeatureCache());
  return {.policy = policy_of(cache.policy), .rows = cache.rows.value()};
}

progress::RowOrigins origins_of(const shards::RowCounts& counts) {
  return {.local = counts.local, .cache = counts.hits, .remote = counts.remote};
}

}  // namespace

Result<std::unique_ptr<PartInputs>> PartInputs::open(
    const graph::Dataset& dataset,
    const PartitionedData& data,
    const MakeSamplers& make_samplers,
    const TrainingItems& items,
    const comm::RankGroups& groups
) {
  const api::Placement& placement = data.placement;
  std::unique_ptr<PartInputs> made(new PartInputs(groups));
  made->serves_ = groups.node->rank() == 0;
  made->num_node_types_ = dataset.node_types.size();
  made->num_edge_types_ = dataset.edge_types.size();
  const int64_t node = groups.all->rank() / groups.node->world_size();
  shards::ShardsOptions options{
      .part =
          {.part = data.server ? data.server->part : node % placement.partitions,
           .topology = held(placement.topology),
           .features = held(placement.features)},
      .cache = cache_of(placement)
  };
  if (data.device_features) {
    const api::Features& features = data.device_features->features;
    const double share = features.device_rows ? features.device_rows->value() : 0;
    options.device = {
        .device = data.device_features->device,
        .rows = features.memory == api::FeatureMemory::Device ? 1 : share
    };
  }
  GNN_ASSIGN_OR_RETURN(const auto part, shards::Part::create(dataset, options.part));
  GNN_ASSIGN_OR_RETURN(std::vector<shards::SamplerSpec> samplers, make_samplers(*part));
  if (options.cache.policy == shards::CachePolicy::Hotness && placement.partitions > 1) {
    const HotRowsOptions finding{
        .rows = options.cache.rows,
        .num_cpus = data.num_cpus,
        .memory_bytes = data.memory_bytes,
        .progress = data.loading,
        .alone = data.server.has_value()
    };
    GNN_ASSIGN_OR_RETURN(
        options.cache.hot,
        hot_rows_of_job(
            dataset, *part, {.sampler = samplers.front(), .items = items}, finding, groups
        )
    );
  }
  if (!data.has_own_lists_alone()) samplers.clear();
  GNN_ASSIGN_OR_RETURN(
      made->shards_, shards::Shards::create(dataset, options, std::move(samplers))
  );
  shards::Peers peers(static_cast<size_t>(placement.partitions));
  if (data.server && placement.partitions > 1) {
    GNN_ASSIGN_OR_RETURN(peers, data.server->connect(made->shards_->service()));
  } else if (placement.partitions > 1) {
    GNN_ASSIGN_OR_RETURN(made->network_, DataNetwork::create(data.network, groups));
    made->meter_ = std::make_shared<progress::RemoteMeter>([inputs = made.get()] {
      return inputs->remote_data();
    });
    if (data.progress != nullptr) data.progress->on_remote_meter(made->meter_);
    GNN_ASSIGN_OR_RETURN(
        peers, made->network_->open(made->serves_ ? made->shards_->service() : nullptr)
    );
  }
  GNN_RETURN_IF_ERROR(made->shards_->connect(std::move(peers), data.loading));
  made->connected_.store(true);
  return made;
}

Result<std::shared_ptr<sampling::Sampler>> PartInputs::sampler(
    size_t number,
    Use use,
    const std::shared_ptr<sampling::device::DeviceGraph>& device_graph,
    sampling::device::BatchLimits limits
) const {
  const auto place = static_cast<uint32_t>(number);
  std::shared_ptr<const sampling::HopBatches> hops;
  if (device_graph != nullptr) {
    const shards::PartSampler& own = shards_->part_sampler(place);
    GNN_ASSIGN_OR_RETURN(const auto relations, own.own_relations());
    GNN_ASSIGN_OR_RETURN(
        hops,
        sampling::device::DeviceHopSampler::create(
            own.options(), own.part().num_nodes(), relations, device_graph, std::move(limits)
        )
    );
  }
  return shards_->sampler(place, hop_bytes_[static_cast<size_t>(use)], std::move(hops));
}

progress::RemoteData PartInputs::remote_data() const {
  progress::RemoteData data;
  if (network_ != nullptr) network_->count(data);
  if (!connected_.load()) return data;
  const shards::RowCounts training = shards_->counts();
  data.training = origins_of(training);
  data.evaluation = origins_of(shards_->evaluation_counts());
  data.cache_rows = shards_->fill_counts().remote;
  data.training_bytes =
      training.remote_bytes + hop_bytes_[static_cast<size_t>(Use::Training)]->load();
  data.expected_hit_rate = shards_->expected_hit_rate();
  return data;
}

Result<progress::RemoteSummary> PartInputs::remote_summary(int64_t steps) const {
  const progress::RemoteData mine = remote_data();
  const auto reads = static_cast<double>(mine.training.cache + mine.training.remote);
  const bool is_known = reads == 0 || mine.expected_hit_rate;
  GNN_ASSIGN_OR_RETURN(
      const std::vector<double> sums,
      comm::all_reduce_sums(
          *groups_.all,
          {static_cast<double>(mine.training_bytes),
           static_cast<double>(mine.training.cache),
           reads,
           mine.expected_hit_rate.value_or(0) * reads,
           is_known ? 0.0 : 1.0}
      )
  );
  progress::RemoteSummary summary;
  if (steps > 0) summary.bytes_per_step = sums[0] / static_cast<double>(steps);
  if (sums[2] == 0) return summary;
  summary.hit_rate = sums[1] / sums[2];
  if (sums[4] == 0) summary.expected_hit_rate = sums[3] / sums[2];
  return summary;
}

std::shared_ptr<loader::FeatureFetcher> PartInputs::features(int64_t node_type, Use use) const {
  return use == Use::Training ? shards_->features(node_type)
                              : shards_->evaluation_features(node_type);
}

int64_t PartInputs::graph_bytes() const {
  int64_t bytes = 0;
  for (size_t type = 0; type < num_edge_types_; ++type) {
    const shards::PartLists& lists = shards_->part()->lists(static_cast<int64_t>(type));
    const auto* const indptr = lists.indptr.const_data_ptr<int64_t>();
    const int64_t edges = indptr[lists.nodes.size()] - indptr[0];
    bytes += static_cast<int64_t>(lists.indptr.nbytes()) +
             edges * static_cast<int64_t>(lists.indices.element_size());
  }
  return bytes;
}

int64_t PartInputs::feature_bytes() const {
  int64_t bytes = shards_->cache_bytes();
  for (size_t type = 0; type < num_node_types_; ++type) {
    const at::Tensor& rows = shards_->part()->features(static_cast<int64_t>(type)).rows;
    if (rows.defined()) bytes += static_cast<int64_t>(rows.nbytes());
  }
  return bytes;
}

training::PartOfGraph PartInputs::graph() const {
  return {
      .part = shards_->part(),
      .features = shards_->host_features(0),
      .peers = shards_->peers(),
      .service = serves_ ? shards_->service() : nullptr
  };
}

Result<graph::Dataset> with_own_lists(const graph::Dataset& dataset, const shards::Part& part) {
  graph::Dataset own = dataset;
  for (size_t i = 0; i < own.edge_types.size(); ++i) {
    const shards::PartLists& lists = part.lists(static_cast<int64_t>(i));
    GNN_ASSIGN_OR_RETURN(own.edge_types[i].graph, lists.graph_of(lists.nodes, true));
  }
  return own;
}

}  // namespace gnn::tasks
