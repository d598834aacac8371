#pragma once

#include "common/result.h"
#include "worker/data/array.h"
#include "worker/data/link_split.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::data {

struct DatasetArrays;

/// Ids from `begin` up to, but not including, `end`.
struct IdRange {
  int64_t begin = 0;
  int64_t end = 0;

  [[nodiscard]] int64_t size() const { return end - begin; }
  [[nodiscard]] bool contains(int64_t id) const { return begin <= id && id < end; }
  friend bool operator==(const IdRange&, const IdRange&) = default;
};

/// Which nodes a hop samples neighbours for (see sampling::SamplingRule).
enum class HopRule { NewNodes, AllSeen };

/// How the batches of a job are drawn, as far as the hotness of nodes depends on it.
struct BatchDraws {
  /// For each edge table of the data set the neighbours drawn for a node, of the hop next to the seeds
  /// first; -1 all, 0 none. Equally many hops for all.
  std::vector<std::vector<int64_t>> fanouts{};
  int64_t batch_size = 0;  ///< seeds, or links
  bool replace = false;
  HopRule rule = HopRule::NewNodes;
  /// Pairs that are no link, for each link of a batch; 0 where seeds are nodes.
  double negatives = 0;

  friend bool operator==(const BatchDraws&, const BatchDraws&) = default;
};

/// The most parts that a data set can have.
inline constexpr int64_t kMostParts = 65'534;

/// How the nodes of a data set are dealt to parts. Nodes are numbered so that each part owns a range
/// of each node type. The owner of a node has its in-neighbour lists, its feature rows and its label.
struct PartitionBook {
  int64_t parts = 0;
  /// For each node table parts + 1 ids, from 0 to the number of nodes, not descending: part p owns
  /// [offsets[p], offsets[p + 1]).
  std::vector<std::vector<int64_t>> offsets{};
  std::string method{};  ///< "random", "hotness", "ldg" or "metis"
  int64_t seed = 0;
  BatchDraws draws{};  ///< that the hotness of nodes was computed for

  /// The owner of a node. `id` must be one (GNN_ASSERT).
  [[nodiscard]] int64_t part_of(size_t node_table, int64_t id) const;
  [[nodiscard]] IdRange range_of(size_t node_table, int64_t part) const {
    const std::vector<int64_t>& table = offsets.at(node_table);
    return {table.at(static_cast<size_t>(part)), table.at(static_cast<size_t>(part) + 1)};
  }
  friend bool operator==(const PartitionBook&, const PartitionBook&) = default;
};

/// What the batches of one part read of one node type. A read is one row of one batch, so that numbers
/// of reads are expected rows of a batch.
struct HotRows {
  Array ids{};              ///< int64 [H], of other parts, hottest first; undefined if not kept
  Array hotness{};          ///< float64 [H]: the expected reads of each, descending
  double local_reads = 0;   ///< of rows that the part owns
  double remote_reads = 0;  ///< of rows that other parts own

  /// The share of remote reads that a cache of the first `rows` ids answers; 1 without remote reads.
  [[nodiscard]] double hit_rate(int64_t rows) const;
};

/// A data set's partitions, with what was found out about them.
struct Partitions {
  PartitionBook book;
  /// Set in an extracted part: the part whose nodes alone have lists, feature rows and labels here.
  /// The arrays begin with its first node; ids in them are those of the whole data set. Split, pairs
  /// of links and features of edges are whole.
  std::optional<int64_t> only{};
  /// In an extracted part the digest of the whole data set, else empty.
  std::string whole_digest{};
  /// For each node table int64 [nodes held]: the node's id before nodes were renumbered.
  std::vector<Array> original_ids{};
  /// By node table and part. An extracted part has ids and hotness of itself alone.
  std::vector<std::vector<HotRows>> hot{};
  /// Of the data set's links, if one was asked for; whole in an extracted part, too.
  std::optional<StoredLinkSplit> link_split{};

  /// The nodes whose lists, rows and labels are held: all of them but in an extracted part.
  [[nodiscard]] IdRange held(size_t node_table) const;
};

/// The nodes of a table that have lists, feature rows and labels in `dataset`, which need not be
/// partitioned.
IdRange held_nodes(const DatasetArrays& dataset, size_t node_table);

/// The part of a data set's identity that its arrays don't tell: the book, and which part of it is
/// there. Empty without partitions.
std::string partitions_text(const DatasetArrays& dataset);

/// Checks numbers and shapes, and returns the first problem: as many parts, ranges, ids and rows as
/// the book says, and as the split of links does.
/// Errors: Data.
Status check_partitions_form(const DatasetArrays& dataset, std::string_view where);

/// Checks the elements of the arrays of partitions, which passed check_partitions_form(): hot ids are
/// nodes of other parts, each once, hotness is finite, positive, descending and in all no more than the
/// remote reads, each original id occurs once, and the split of links has each of them once.
/// Errors: Data.
Status check_partitions(const DatasetArrays& dataset, std::string_view where);

}  // namespace gnn::data
