#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/graph/dataset.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/loader/row_device.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/hop_sampler.h"
#include "worker/shards/part.h"
#include "worker/shards/part_sampler.h"
#include "worker/shards/peer.h"
#include "worker/shards/row_cache.h"
#include "worker/shards/row_fetcher.h"
#include "worker/shards/service.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gnn::shards {

/// Which remote rows are kept.
enum class CachePolicy {
  Hotness,  ///< those that batches of this part are expected to read most often
  Degree,   ///< those of the nodes that most of this part's lists name
  None,
};

struct CacheOptions {
  CachePolicy policy = CachePolicy::Hotness;
  double rows = 0.1;  ///< as a share of the rows of a node type
  /// By node type, for a job whose batches are drawn in another way than the data set was partitioned
  /// for (see hot_rows()); empty: what the data set has. Without hotness no hit rate is expected.
  std::vector<graph::HotRowsData> hot{};
};

/// A device that gathers feature rows.
struct RowDeviceOptions {
  std::shared_ptr<loader::RowDevice> device;
  double rows = 1;  ///< the share of the rows held here that lies on it, the hottest
};

struct ShardsOptions {
  PartOptions part;
  CacheOptions cache;
  /// Gathers feature rows and has the caches'; nothing: the host does.
  std::optional<RowDeviceOptions> device{};
};

/// What a rank needs of a partitioned data set: its node's part, what it serves of it, and samplers and
/// rows that ask the other nodes. In the order of a job:
/// 1. create() on every rank, with the same samplers in the same order on all nodes.
/// 2. Local rank 0 of each node serves service(), and all learn its address.
/// 3. When all serve, connect() on every rank; then sampler(), features() and labels().
/// 4. When no rank makes a batch any more, all let go of what connect() made, and then the services
///    end.
/// Threads: create() and connect() by one; the rest by any.
class Shards {
 public:
  /// Errors: those of Part::create() and PartSampler::create().
  [[nodiscard]] static Result<std::unique_ptr<Shards>> create(
      const graph::Dataset& dataset, const ShardsOptions& options, std::vector<SamplerSpec> samplers
  );

  [[nodiscard]] const std::shared_ptr<const Part>& part() const { return part_; }
  /// The same object on every call; the ranks that do not serve it leave it alone.
  [[nodiscard]] const std::shared_ptr<Service>& service() const { return service_; }

  /// Takes the peers, by part, and fills the cache from them, with a word to `progress` for each piece.
  /// Errors: Configuration if a part has no peer; those of the peers.
  [[nodiscard]] Status connect(Peers peers, ProgressBar& progress);

  /// The sampler of that number; it asks other nodes for their share of each hop. `received` as in
  /// RemoteSampler::create(), and `hops`.
  /// Errors: those of RemoteSampler::create().
  [[nodiscard]] Result<std::shared_ptr<sampling::Sampler>> sampler(
      uint32_t number,
      std::shared_ptr<std::atomic<int64_t>> received = nullptr,
      std::shared_ptr<const sampling::HopBatches> hops = nullptr
  ) const;
  /// What that sampler draws from.
  [[nodiscard]] const PartSampler& part_sampler(uint32_t number) const {
    return *samplers_.at(number);
  }
  /// Of training batches. Null if the type has none.
  [[nodiscard]] std::shared_ptr<RowFetcher> features(int64_t node_type) const {
    return features_.at(static_cast<size_t>(node_type));
  }
  /// The same rows on the host, without the cache that a device has; counted with evaluations.
  [[nodiscard]] std::shared_ptr<RowFetcher> host_features(int64_t node_type) const {
    return host_features_.at(static_cast<size_t>(node_type));
  }
  /// The same rows for evaluations, whose reads no cache is made for: they are counted apart.
  [[nodiscard]] std::shared_ptr<RowFetcher> evaluation_features(int64_t node_type) const {
    return evaluation_features_.at(static_cast<size_t>(node_type));
  }
  [[nodiscard]] std::shared_ptr<RowFetcher> labels(int64_t node_type) const {
    return labels_.at(static_cast<size_t>(node_type));
  }
  [[nodiscard]] const Peers& peers() const { return peers_; }

  /// Of the feature rows of all types: those of training batches, of evaluations, and those that
  /// caches were filled with.
  [[nodiscard]] RowCounts counts() const;
  [[nodiscard]] RowCounts evaluation_counts() const;
  [[nodiscard]] const RowCounts& fill_counts() const { return fill_counts_; }
  /// Of the remote rows that training batches have read so far, the share that caches were expected
  /// to have; nothing if they have read none, or it is not known of all types that they read.
  [[nodiscard]] std::optional<double> expected_hit_rate() const;
  /// Bytes of the cache.
  [[nodiscard]] int64_t cache_bytes() const { return cache_bytes_; }

 private:
  Shards(const graph::Dataset& dataset, const ShardsOptions& options)
      : dataset_(dataset), options_(options) {}

  [[nodiscard]] Result<std::shared_ptr<RowFetcher>> rows_of(
      Method method, int64_t node_type, RowPlaces places
  ) const;
  // Of the rows held here, those that lie on the device.
  [[nodiscard]] at::Tensor hot_ids(int64_t node_type) const;
  // A device's rows of a type, with those of the cache.
  [[nodiscard]] Result<RowPlaces> places_on_device(
      int64_t node_type, RowPlaces places, ProgressBar& progress
  ) const;
  Status add_features(int64_t node_type, ProgressBar& progress);
  // What to keep of a type's rows.
  [[nodiscard]] CachedIds cached_ids(int64_t node_type) const;
  [[nodiscard]] Result<std::shared_ptr<const RowCache>> make_cache(
      int64_t node_type, ProgressBar& progress
  );

  const graph::Dataset dataset_;
  const ShardsOptions options_;
  std::shared_ptr<const Part> part_;
  std::vector<std::shared_ptr<PartSampler>> samplers_;
  std::shared_ptr<Service> service_;
  Peers peers_;
  std::vector<std::shared_ptr<RowFetcher>> features_;  // by node type
  std::vector<std::shared_ptr<RowFetcher>> evaluation_features_;
  std::vector<std::shared_ptr<RowFetcher>> host_features_;
  std::vector<std::shared_ptr<RowFetcher>> labels_;
  RowCounts fill_counts_;
  int64_t cache_bytes_ = 0;
};

}  // namespace gnn::shards
