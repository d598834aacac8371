#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/graph/dataset.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/shards/part.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace gnn::shards {

/// Keeps `most` ids of those with the largest values, the largest first; of equal ones the lowest ids.
template <class Values>
void keep_largest(std::vector<int64_t>& ids, const Values& values, int64_t most) {
  const auto count = std::min(ids.size(), static_cast<size_t>(most));
  std::partial_sort(
      ids.begin(),
      ids.begin() + static_cast<std::ptrdiff_t>(count),
      ids.end(),
      [&](int64_t a, int64_t b) {
        const auto of_a = values[static_cast<size_t>(a)];
        const auto of_b = values[static_cast<size_t>(b)];
        return of_a != of_b ? of_a > of_b : a < b;
      }
  );
  ids.resize(count);
}

/// Counts how often each id is named, up to the most that a count holds.
template <class Id>
void count_names(std::span<const Id> ids, std::vector<uint32_t>& counts) {
  for (const Id id : ids) {
    uint32_t& count = counts[static_cast<size_t>(id)];
    count += count < std::numeric_limits<uint32_t>::max() ? 1 : 0;
  }
}

/// The rows of other parts' nodes that a node keeps.
struct CachedIds {
  at::Tensor ids;  ///< int64 [C]
  /// The share of remote rows that they are expected to be; nothing where that is not known.
  std::optional<double> expected_hit_rate{};
};

/// What batches read of a node type, from the reads of each node that partition::hotness() gives: the
/// `rows` hottest of the nodes that are not `own`, those of the lowest ids among equals. For a job
/// whose batches are drawn in another way than those that the data set was partitioned for.
[[nodiscard]] graph::HotRowsData hot_rows(
    std::span<const double> reads, const data::IdRange& own, int64_t rows
);

/// The `rows` hottest of the ids, fewer if there are fewer.
[[nodiscard]] CachedIds hottest(const graph::HotRowsData& hot, int64_t rows);

/// The `rows` nodes of `node_type` in other parts that most entries of this part's own lists name,
/// those of the lowest ids among equals. `edge_types`: source type of each edge type. Nodes that no
/// entry names are left out.
/// Takes 4 bytes per node of the type while it runs.
[[nodiscard]] CachedIds most_named(
    const Part& part,
    const std::vector<int64_t>& source_types,
    const std::vector<int64_t>& destination_types,
    int64_t node_type,
    int64_t rows
);

/// Rows by node id, in memory, in the order of their ids: a row's number is how many ids are below its
/// own, which a bit for each node and a count for each 64 nodes tell. That is a quarter of a byte a
/// node, which stays in a core's cache where a table of ids would not.
/// Threads: safe to read from any thread.
class RowCache {
 public:
  /// Shapes: ids int64 [C], ascending; rows [C, ...], contiguous; both on the CPU.
  RowCache(const at::Tensor& ids, at::Tensor rows, std::optional<double> expected_hit_rate = {});

  /// The row of a node, or -1.
  [[nodiscard]] int64_t find(int64_t id) const {
    const auto word = static_cast<size_t>(id) / 64;
    const uint64_t bit = uint64_t{1} << (static_cast<uint64_t>(id) % 64);
    if (word >= bits_.size() || (bits_[word] & bit) == 0) return -1;
    return before_[word] + std::popcount(bits_[word] & (bit - 1));
  }

  [[nodiscard]] const at::Tensor& rows() const { return rows_; }
  /// Of rows(), ascending.
  [[nodiscard]] const at::Tensor& ids() const { return ids_; }
  /// The same without rows, which lie elsewhere.
  [[nodiscard]] RowCache without_rows() const {
    RowCache ids_alone = *this;
    ids_alone.rows_ = rows_.narrow(0, 0, 0).clone();
    return ids_alone;
  }
  [[nodiscard]] std::optional<double> expected_hit_rate() const { return expected_hit_rate_; }

 private:
  at::Tensor ids_;
  at::Tensor rows_;
  std::optional<double> expected_hit_rate_;
  std::vector<uint64_t> bits_;   // of the ids that are here, up to the last of them
  std::vector<int64_t> before_;  // ids that are here below those of each word of bits_
};

/// Fetches the rows of `cached`, whose ids are distinct, piece by piece, with a word to `progress` after
/// each.
/// Errors: those of the fetcher.
[[nodiscard]] Result<RowCache> fill_cache(
    const CachedIds& cached, loader::FeatureFetcher& fetcher, ProgressBar& progress
);

}  // namespace gnn::shards
