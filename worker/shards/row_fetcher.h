#pragma once

#include "common/executor.h"
#include "common/page_buffer.h"
#include "common/recycler.h"
#include "common/result.h"
#include "worker/loader/device_rows.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/shards/messages.h"
#include "worker/shards/part.h"
#include "worker/shards/peer.h"
#include "worker/shards/row_cache.h"

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace gnn::shards {

/// Where the rows that were asked for came from, so far.
struct RowCounts {
  int64_t local = 0;         ///< this node's own memory
  int64_t hits = 0;          ///< the cache
  int64_t remote = 0;        ///< other nodes: the cache's misses
  int64_t remote_bytes = 0;  ///< of the rows that other nodes sent, without ids and headers

  RowCounts& operator+=(const RowCounts& more) {
    local += more.local;
    hits += more.hits;
    remote += more.remote;
    remote_bytes += more.remote_bytes;
    return *this;
  }
};

/// Where a fetcher has rows beside its part's own.
struct RowPlaces {
  std::shared_ptr<const RowCache> cache{};  ///< others' rows; null: none
  /// The device that gathers own and cached rows, which lie there or in place; then the cache has ids
  /// alone. Null: the host does.
  std::shared_ptr<const loader::DeviceRows> device{};
};

/// Rows by node id, of which this process has some: its part's own, and those in a cache. The others
/// come from their owners, who are all asked at once, and are received straight into the result.
/// Results live in recycled buffers: drop them with their batch. Where a device gathers, they are tensors
/// of it: what other nodes send is received into memory that the device reads, and put to its places
/// when the last reply has come.
class RowFetcher final : public loader::FeatureFetcher {
 public:
  struct Options {
    Method method = Method::Features;  ///< by which owners are asked
    uint32_t index = 0;                ///< of the matrix, see Method
    int64_t node_type = 0;             ///< whose ids name rows
  };

  /// `own`: the rows that this process has, at least those of its part's nodes.
  /// Errors: Configuration naming what was found.
  [[nodiscard]] static Result<std::shared_ptr<RowFetcher>> create(
      const Options& options,
      std::shared_ptr<const Part> part,
      PartRows own,
      Peers peers,
      RowPlaces places = {}
  );

  /// Ids may lie where the device reads them.
  /// Errors, by `done`: Data naming the first id that is no node, or for a reply of another size;
  /// PeerLost naming the peer.
  void start(at::Tensor global_ids, const Executor& executor, Done done) override;

  /// The same rows and memory for results, with counts of its own.
  [[nodiscard]] std::shared_ptr<RowFetcher> counted_apart() const;

  [[nodiscard]] RowCounts counts() const;
  /// Whether all rows are in this process.
  [[nodiscard]] bool is_local() const;
  [[nodiscard]] std::optional<double> expected_hit_rate() const {
    return places_.cache == nullptr ? std::nullopt : places_.cache->expected_hit_rate();
  }

 private:
  class Fetch;
  // Ids to ask for, and the places of their rows in the result.
  struct Wanted {
    std::vector<int64_t> ids;
    std::vector<int64_t> places;
  };
  // Where the rows of a result are.
  struct Dealt {
    std::vector<const std::byte*> here;  // by place; null: to be asked for, or on the device
    std::vector<Wanted> remote;          // by part
    int64_t local = 0;
    int64_t hits = 0;
  };

  RowFetcher(
      const Options& options,
      std::shared_ptr<const Part> part,
      PartRows own,
      Peers peers,
      RowPlaces places,
      std::shared_ptr<Recycler<PageBuffer>> buffers
  );

  void deal(std::span<const int64_t> ids, Dealt& dealt) const;
  [[nodiscard]] Status check_ids(std::span<const int64_t> ids) const;
  void start_on_host(const at::Tensor& ids, const Executor& executor, Done done);
  void start_on_device(const at::Tensor& ids, const Executor& executor, Done done);
  // Asks for what is remote, and counts all.
  void ask_all(const Dealt& dealt, const std::shared_ptr<Fetch>& fetch);
  void count(const Dealt& dealt);
  [[nodiscard]] std::vector<int64_t> shape_of(int64_t rows) const;

  const Options options_;
  const std::shared_ptr<const Part> part_;
  const PartRows own_;
  const Peers peers_;
  const RowPlaces places_;
  const int64_t row_bytes_;
  const std::shared_ptr<Recycler<PageBuffer>> buffers_;
  Recycler<Dealt> dealt_;
  // Relaxed: they order nothing.
  std::atomic<int64_t> local_ = 0;
  std::atomic<int64_t> hits_ = 0;
  std::atomic<int64_t> remote_ = 0;
  std::atomic<int64_t> remote_bytes_ = 0;
};

}  // namespace gnn::shards
