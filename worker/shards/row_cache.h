#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/graph/dataset.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/shards/part.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gnn::shards {

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

/// Rows by node id, in memory.
/// Threads: safe to read from any thread.
class RowCache {
 public:
  /// Shapes: ids int64 [C], distinct; rows [C, ...], contiguous; both on the CPU.
  RowCache(at::Tensor ids, at::Tensor rows, std::optional<double> expected_hit_rate = {});

  /// The row of a node, or -1.
  [[nodiscard]] int64_t find(int64_t id) const {
    for (uint64_t at = home(id);; at = (at + 1) & (slots_.size() - 1)) {
      const int64_t row = slots_[at];
      if (row < 0 || ids_[row] == id) return row;
    }
  }

  [[nodiscard]] const at::Tensor& rows() const { return rows_; }
  [[nodiscard]] std::optional<double> expected_hit_rate() const { return expected_hit_rate_; }

 private:
  [[nodiscard]] uint64_t home(int64_t id) const {
    return (static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15U) >> shift_;
  }

  at::Tensor id_tensor_;
  at::Tensor rows_;
  std::optional<double> expected_hit_rate_;
  const int64_t* ids_;
  int shift_ = 0;
  std::vector<int32_t> slots_;  // rows, -1: free; at most half of them in use
};

/// Fetches the rows of `cached` piece by piece, with a word to `progress` after each.
/// Errors: those of the fetcher.
[[nodiscard]] Result<RowCache> fill_cache(
    const CachedIds& cached, loader::FeatureFetcher& fetcher, ProgressBar& progress
);

}  // namespace gnn::shards
