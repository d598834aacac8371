#include "worker/shards/shards.h"

#include "worker/loader/device_rows.h"
#include "worker/shards/remote_sampler.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace gnn::shards {
namespace {

RowCounts sum_of(const std::vector<std::shared_ptr<RowFetcher>>& fetchers) {
  RowCounts sum;
  for (const std::shared_ptr<RowFetcher>& rows : fetchers)
    if (rows != nullptr) sum += rows->counts();
  return sum;
}

}  // namespace

Result<std::unique_ptr<Shards>> Shards::create(
    const graph::Dataset& dataset, const ShardsOptions& options, std::vector<SamplerSpec> samplers
) {
  std::unique_ptr<Shards> shards(new Shards(dataset, options));
  GNN_ASSIGN_OR_RETURN(shards->part_, Part::create(dataset, options.part));
  for (SamplerSpec& spec : samplers) {
    GNN_ASSIGN_OR_RETURN(auto sampler, PartSampler::create(shards->part_, std::move(spec)));
    shards->samplers_.push_back(std::move(sampler));
  }
  shards->service_ = std::make_shared<Service>(shards->part_, shards->samplers_);
  return shards;
}

Result<std::shared_ptr<RowFetcher>> Shards::rows_of(
    Method method, int64_t node_type, RowPlaces places
) const {
  const PartRows& own =
      method == Method::Features ? part_->features(node_type) : part_->labels(node_type);
  if (!own.rows.defined()) return std::shared_ptr<RowFetcher>();
  return RowFetcher::create(
      {.method = method, .index = static_cast<uint32_t>(node_type), .node_type = node_type},
      part_,
      own,
      peers_,
      std::move(places)
  );
}

CachedIds Shards::cached_ids(int64_t node_type) const {
  const auto type = static_cast<size_t>(node_type);
  const auto rows = static_cast<int64_t>(
      std::floor(options_.cache.rows * static_cast<double>(part_->num_nodes()[type]))
  );
  if (options_.cache.policy == CachePolicy::Hotness) {
    const auto part = static_cast<size_t>(part_->index());
    const bool recomputed = !options_.cache.hot.empty();
    return hottest(
        recomputed ? options_.cache.hot.at(type) : dataset_.partitions->hot.at(type).at(part), rows
    );
  }
  std::vector<int64_t> sources;
  std::vector<int64_t> destinations;
  for (const graph::EdgeTypeData& edges : dataset_.edge_types) {
    sources.push_back(edges.source_index);
    destinations.push_back(edges.destination_index);
  }
  return most_named(*part_, sources, destinations, node_type, rows);
}

Result<std::shared_ptr<const RowCache>> Shards::make_cache(
    int64_t node_type, ProgressBar& progress
) {
  GNN_ASSIGN_OR_RETURN(const auto filler, rows_of(Method::Features, node_type, {}));
  if (filler == nullptr || filler->is_local() || options_.cache.policy == CachePolicy::None)
    return std::shared_ptr<const RowCache>();
  GNN_ASSIGN_OR_RETURN(RowCache cache, fill_cache(cached_ids(node_type), *filler, progress));
  fill_counts_ += filler->counts();
  cache_bytes_ += static_cast<int64_t>(cache.rows().nbytes());
  return std::make_shared<const RowCache>(std::move(cache));
}

Status Shards::connect(Peers peers, ProgressBar& progress) {
  peers_ = std::move(peers);
  for (size_t i = 0; i < part_->num_nodes().size(); ++i) {
    const auto type = static_cast<int64_t>(i);
    GNN_RETURN_IF_ERROR(add_features(type, progress));
    GNN_ASSIGN_OR_RETURN(auto labels, rows_of(Method::Labels, type, {}));
    labels_.push_back(std::move(labels));
  }
  return {};
}

Status Shards::add_features(int64_t node_type, ProgressBar& progress) {
  RowPlaces places;
  GNN_ASSIGN_OR_RETURN(places.cache, make_cache(node_type, progress));
  const bool on_device = options_.device && part_->features(node_type).rows.defined();
  if (on_device) {
    GNN_ASSIGN_OR_RETURN(places, places_on_device(node_type, std::move(places), progress));
  }
  GNN_ASSIGN_OR_RETURN(auto features, rows_of(Method::Features, node_type, std::move(places)));
  auto evaluated = features == nullptr ? nullptr : features->counted_apart();
  auto on_host = evaluated;
  if (on_device) {
    GNN_ASSIGN_OR_RETURN(on_host, rows_of(Method::Features, node_type, {}));
  }
  features_.push_back(std::move(features));
  evaluation_features_.push_back(std::move(evaluated));
  host_features_.push_back(std::move(on_host));
  return {};
}

// The nodes of a part are numbered by how often its batches read them. Of others' rows, where they are
// here, too, those that the data set says are hot come next.
at::Tensor Shards::hot_ids(int64_t node_type) const {
  const data::IdRange held = part_->features(node_type).nodes;
  const auto wanted =
      static_cast<int64_t>(std::floor(options_.device->rows * static_cast<double>(held.size())));
  if (wanted == held.size()) return at::arange(held.begin, held.end, at::kLong);
  const data::IdRange own = part_->own(node_type);
  const int64_t of_own = std::min(wanted, own.size());
  const at::Tensor ids = at::arange(own.begin, own.begin + of_own, at::kLong);
  if (of_own == wanted) return ids;
  const auto type = static_cast<size_t>(node_type);
  const auto& hot = dataset_.partitions->hot.at(type).at(static_cast<size_t>(part_->index()));
  return at::cat({ids, hottest(hot, wanted - of_own).ids});
}

Result<RowPlaces> Shards::places_on_device(
    int64_t node_type, RowPlaces places, ProgressBar& progress
) const {
  const PartRows& own = part_->features(node_type);
  loader::DeviceRowsOptions rows{
      .rows = own.rows,
      .first = own.nodes.begin,
      .num_nodes = part_->num_nodes()[static_cast<size_t>(node_type)],
      .hot_ids = hot_ids(node_type)
  };
  if (places.cache != nullptr) {
    rows.cached_ids = places.cache->ids();
    rows.cached_rows = places.cache->rows();
    places.cache = std::make_shared<const RowCache>(places.cache->without_rows());
  }
  GNN_ASSIGN_OR_RETURN(
      places.device, loader::DeviceRows::create(options_.device->device, rows, progress)
  );
  return places;
}

Result<std::shared_ptr<sampling::Sampler>> Shards::sampler(
    uint32_t number,
    std::shared_ptr<std::atomic<int64_t>> received,
    std::shared_ptr<const sampling::HopBatches> hops
) const {
  GNN_ASSIGN_OR_RETURN(
      auto sampler,
      RemoteSampler::create(
          number, samplers_.at(number), peers_, std::move(received), std::move(hops)
      )
  );
  return std::shared_ptr<sampling::Sampler>(std::move(sampler));
}

RowCounts Shards::counts() const {
  return sum_of(features_);
}

RowCounts Shards::evaluation_counts() const {
  RowCounts counts = sum_of(evaluation_features_);
  if (options_.device) counts += sum_of(host_features_);
  return counts;
}

std::optional<double> Shards::expected_hit_rate() const {
  double hits = 0;
  double reads = 0;
  for (const std::shared_ptr<RowFetcher>& rows : features_) {
    if (rows == nullptr) continue;
    const RowCounts counts = rows->counts();
    const auto of_type = static_cast<double>(counts.hits + counts.remote);
    if (of_type == 0) continue;
    if (!rows->expected_hit_rate()) return std::nullopt;
    hits += *rows->expected_hit_rate() * of_type;
    reads += of_type;
  }
  return reads > 0 ? std::optional(hits / reads) : std::nullopt;
}

}  // namespace gnn::shards
