#pragma once

#include "worker/data/dataset_arrays.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace gnn::partition {

/// The cache sizes of a report: rows kept, as shares of the nodes of each type.
inline constexpr std::array<double, 4> kCacheShares{0.01, 0.05, 0.1, 0.2};

/// What one part has, and what its batches are expected to read.
struct PartReport {
  std::vector<int64_t> nodes{};  ///< by node table
  int64_t edges = 0;             ///< entries of its lists
  int64_t local_edges = 0;       ///< of those, from its own nodes
  int64_t items = 0;             ///< that it trains: nodes, or links
  double local_reads = 0;        ///< rows of a batch, of all types
  double remote_reads = 0;
  /// The share of remote reads that a cache of kCacheShares answers; -1 if fewer hot rows are kept.
  std::array<double, kCacheShares.size()> hit_rates{};

  [[nodiscard]] double local_share() const;
};

struct Report {
  std::string method;
  std::vector<std::string> node_types;
  std::vector<PartReport> parts;

  /// The share of list entries whose two ends have different owners.
  [[nodiscard]] double cut() const;
  /// The share of rows that batches of all parts read from the own part.
  [[nodiscard]] double local_share() const;
  /// The hit rate of all parts' caches of kCacheShares[size]; -1 if fewer hot rows are kept.
  [[nodiscard]] double hit_rate(size_t size) const;
};

/// How many more than the mean the part with the most has: 0.02 for 2 % more. 0 if there is nothing.
double imbalance(const std::vector<int64_t>& by_part);

/// Of a partitioned data set that is whole (GNN_ASSERT); reads all of its lists.
Report make_report(const data::DatasetArrays& dataset);

/// One line a part and one of all, for people.
std::string report_text(const Report& report);
/// One JSON object.
std::string report_json(const Report& report);

}  // namespace gnn::partition
