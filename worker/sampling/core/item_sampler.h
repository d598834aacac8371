#pragma once

#include "common/result.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace gnn::sampling::core {

/// The items of a list by the partition of the data that they lie in.
struct ItemParts {
  /// Indices into the list, those of partition 0 first; empty where nobody asks for an epoch.
  std::vector<int64_t> items;
  std::vector<int64_t> offsets;  ///< int64 [P + 1]: where the items of each partition begin

  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(offsets.size()) - 1; }
  [[nodiscard]] int64_t size_of(int64_t part) const {
    const auto place = static_cast<size_t>(part);
    return offsets[place + 1] - offsets[place];
  }
};

/// Sorts items by the partition of their nodes; those of one keep their order.
/// Shapes: nodes [num_items], each in [0, last bound); bounds int64 [P + 1], ascending from 0:
/// partition p has the nodes [bounds[p], bounds[p + 1]).
[[nodiscard]] ItemParts items_by_part(
    std::span<const int64_t> nodes, std::span<const int64_t> bounds
);

/// How the items of an epoch's global order are dealt to the ranks.
enum class SplitRule {
  /// GraphBolt's DistributedItemSampler: each rank takes a slice of whole batches; no item twice.
  ContiguousSlices,
  /// torch's DistributedSampler: pads by repetition to a multiple of the ranks R, then every R-th
  /// item.
  PaddedStride,
  /// torch's DistributedSampler(drop_last=True): cuts the tail, then every R-th item.
  TruncatedStride,
  /// ContiguousSlices of each partition's items, shuffled apart, for the ranks of its holders; the
  /// global order is that of partition 0, then 1, .... Node n holds partition n mod P.
  Owner,
};

struct ItemSamplerOptions {
  int64_t num_items = 0;
  int64_t batch_size = 1;  ///< items per rank and step
  int64_t rank = 0;
  int64_t world_size = 1;
  SplitRule split = SplitRule::ContiguousSlices;
  bool shuffle = false;
  bool drop_last = false;  ///< no batch smaller than batch_size
  /// The same number of batches on every rank; only for ContiguousSlices and Owner.
  bool drop_uneven_inputs = false;
  uint64_t seed = 0;                         ///< the same on every rank
  std::shared_ptr<const ItemParts> parts{};  ///< if and only if the split is Owner
  int64_t ranks_per_node = 1;  ///< only Owner reads it; a node's ranks are consecutive
};

/// One rank's part of the item list, in closed form.
struct RankShare {
  int64_t first = 0;        ///< position of the rank's first item in the epoch's global order
  int64_t stride = 1;       ///< distance between its items in that order
  int64_t num_items = 0;    ///< items that the rank gets
  int64_t num_batches = 0;  ///< batches that the rank gets
};

/// The items that some ranks share, in the order of an epoch: all, or with Owner those of a partition.
struct EpochOrder {
  int64_t first = 0;  ///< position of the first one in the epoch's global order
  std::vector<int64_t> items;
};

/// A batch as it is dealt.
struct DealtBatch {
  std::vector<int64_t> items;  ///< indices into the item list
  int64_t stream = 0;          ///< as EpochItems::stream()
};

/// A rank's items of one epoch, in batches.
class EpochItems {
 public:
  EpochItems(RankShare share, int64_t batch_size, std::vector<int64_t> items)
      : share_(share), batch_size_(batch_size), items_(std::move(items)) {}

  [[nodiscard]] int64_t num_batches() const { return share_.num_batches; }
  /// Indices into the item list, each in [0, num_items).
  [[nodiscard]] std::span<const int64_t> batch(int64_t index) const;
  /// Position of the batch's first item in the epoch's global order. It identifies the batch's
  /// random stream, whatever the number of ranks.
  [[nodiscard]] int64_t stream(int64_t index) const {
    return share_.first + index * batch_size_ * share_.stride;
  }

 private:
  RankShare share_;
  int64_t batch_size_;
  std::vector<int64_t> items_;
};

/// Deals item indices to ranks and batches. All ranks shuffle the global list alike and each takes
/// its part. The shuffle is Fisher-Yates, keyed by (seed, epoch), with Owner by (seed, epoch,
/// partition): the same on every machine, but not torch.randperm's order, so a PyTorch run with the
/// same seed visits items in another order.
class ItemSampler {
 public:
  /// Errors: Configuration, naming the option: batch_size < 1, rank outside [0, world_size),
  /// negative num_items, drop_uneven_inputs with a stride rule (which is always even), ranks that do
  /// not fill their nodes, fewer nodes than partitions.
  [[nodiscard]] static Result<ItemSampler> create(const ItemSamplerOptions& options);

  /// Any rank's share, which every rank can compute.
  [[nodiscard]] RankShare share_of(int64_t rank) const;
  [[nodiscard]] int64_t num_batches() const { return share_of(options_.rank).num_batches; }
  /// The largest number of batches of any rank: the steps of an epoch.
  [[nodiscard]] int64_t max_batches() const;

  [[nodiscard]] EpochItems epoch(int64_t epoch) const;

  /// Whose items a rank's are: with Owner those of this partition, else -1.
  [[nodiscard]] int64_t partition_of(int64_t rank) const;
  /// The order of the items that `rank` and others share: for all ranks with its partition_of() the
  /// same, so that whoever makes batches of many ranks shuffles once.
  [[nodiscard]] EpochOrder order_for(int64_t rank, int64_t epoch) const;
  /// The batch of any rank, as that rank's epoch() has it.
  /// Precondition: `order` is the rank's, and index in [0, num_batches of its share).
  [[nodiscard]] DealtBatch batch_of(const EpochOrder& order, int64_t rank, int64_t index) const;

  [[nodiscard]] const ItemSamplerOptions& options() const { return options_; }

 private:
  explicit ItemSampler(const ItemSamplerOptions& options);

  /// The items that a rank's slices are cut from, and its place among those who share them.
  struct Deal {
    int64_t first = 0;  ///< position of the first item in the epoch's global order
    int64_t num_items = 0;
    int64_t rank = 0;
    int64_t ranks = 1;
    int64_t part = 0;
  };

  [[nodiscard]] Deal deal_of(int64_t rank) const;
  [[nodiscard]] RankShare slice_of(int64_t rank) const;
  [[nodiscard]] EpochOrder order_of(const Deal& deal, int64_t epoch) const;
  // Of a share, the places [begin, end).
  [[nodiscard]] static std::vector<int64_t> cut(
      const EpochOrder& order, const RankShare& share, int64_t begin, int64_t end
  );

  ItemSamplerOptions options_;
  int64_t even_batches_ = 0;  // of each rank, with drop_uneven_inputs
};

}  // namespace gnn::sampling::core
