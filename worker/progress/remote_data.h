#pragma once

#include "common/latency_histogram.h"
#include "worker/progress/meter.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace gnn::progress {

/// What nodes ask each other for: neighbours drawn for a hop, rows of features, labels, and hidden rows
/// of a layer.
enum class DataKind { Hops, Features, Labels, Layers };
inline constexpr std::array kDataKinds{
    DataKind::Hops, DataKind::Features, DataKind::Labels, DataKind::Layers
};

/// "hops", "features", "labels", "layers".
[[nodiscard]] std::string_view to_string(DataKind kind);

/// One value for each DataKind.
template <class T>
class ByKind {
 public:
  [[nodiscard]] T& operator[](DataKind kind) { return values_[static_cast<size_t>(kind)]; }
  [[nodiscard]] const T& operator[](DataKind kind) const {
    return values_[static_cast<size_t>(kind)];
  }

 private:
  std::array<T, kDataKinds.size()> values_{};
};

/// Feature rows by where they came from.
struct RowOrigins {
  int64_t local = 0;   ///< this node's own memory
  int64_t cache = 0;   ///< the cache of remote rows
  int64_t remote = 0;  ///< other nodes

  /// Of the rows that are not local, the share in the cache; NaN without any.
  [[nodiscard]] double hit_rate() const {
    const int64_t reads = cache + remote;
    if (reads == 0) return std::numeric_limits<double>::quiet_NaN();
    return static_cast<double>(cache) / static_cast<double>(reads);
  }
};

/// What a rank has read from other nodes since it started, and has sent them.
struct RemoteData {
  /// Bodies of replies, without what is around them: all that was read for training, evaluations and
  /// caches.
  ByKind<int64_t> received_bytes;
  ByKind<int64_t> served_bytes;      ///< on local rank 0, which serves its node's part
  ByKind<LatencyHistogram> latency;  ///< of this rank's calls, from the question to the answer
  int64_t calls_under_way = 0;       ///< now
  int64_t peers_lost = 0;            ///< connections that broke, or whose peer fell silent
  /// By local rank 0's server: without the key, of another attempt or round, too slow or too many.
  int64_t connections_refused = 0;
  RowOrigins training;  ///< of training batches
  RowOrigins evaluation;
  int64_t cache_rows = 0;  ///< that caches were filled with
  /// Replies to the hops of training batches, and their remote rows.
  int64_t training_bytes = 0;
  /// What `training.hit_rate()` was expected to be; nothing where that is not known.
  std::optional<double> expected_hit_rate{};
};

/// Lets others read a rank's RemoteData while its task runs, and what it was at the end.
using RemoteMeter = Meter<RemoteData>;

/// What the training batches of all ranks have read from other nodes.
struct RemoteSummary {
  double bytes_per_step = 0;  ///< hops and feature rows, all ranks together
  double hit_rate = std::numeric_limits<double>::quiet_NaN();  ///< NaN if no row was remote
  std::optional<double> expected_hit_rate{};  ///< nothing where that is not known of all ranks
};

}  // namespace gnn::progress
