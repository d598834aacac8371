#pragma once

#include "common/result.h"

#include <cstdint>
#include <span>
#include <vector>

namespace gnn::sampling::core {

/// How the items of an epoch's global order are dealt to the ranks.
enum class SplitRule {
  /// GraphBolt's DistributedItemSampler: each rank takes a slice of whole batches; no item twice.
  ContiguousSlices,
  /// torch's DistributedSampler: pads by repetition to a multiple of the ranks R, then every R-th
  /// item.
  PaddedStride,
  /// torch's DistributedSampler(drop_last=True): cuts the tail, then every R-th item.
  TruncatedStride,
};

struct ItemSamplerOptions {
  int64_t num_items = 0;
  int64_t batch_size = 1;  ///< items per rank and step
  int64_t rank = 0;
  int64_t world_size = 1;
  SplitRule split = SplitRule::ContiguousSlices;
  bool shuffle = false;
  bool drop_last = false;  ///< no batch smaller than batch_size
  /// The same number of batches on every rank; only for ContiguousSlices.
  bool drop_uneven_inputs = false;
  uint64_t seed = 0;  ///< the same on every rank
};

/// One rank's part of the item list, in closed form.
struct RankShare {
  int64_t first = 0;        ///< position of the rank's first item in the epoch's global order
  int64_t stride = 1;       ///< distance between its items in that order
  int64_t num_items = 0;    ///< items that the rank gets
  int64_t num_batches = 0;  ///< batches that the rank gets
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
/// its part. The shuffle is Fisher-Yates, keyed by (seed, epoch): the same on every machine, but
/// not torch.randperm's order, so a PyTorch run with the same seed visits items in another order.
class ItemSampler {
 public:
  /// Errors: Configuration, naming the option: batch_size < 1, rank outside [0, world_size),
  /// negative num_items, drop_uneven_inputs with a stride rule (which is always even).
  [[nodiscard]] static Result<ItemSampler> create(const ItemSamplerOptions& options);

  /// Any rank's share, which every rank can compute.
  [[nodiscard]] RankShare share_of(int64_t rank) const;
  [[nodiscard]] int64_t num_batches() const { return share_of(options_.rank).num_batches; }
  /// The largest number of batches of any rank: the steps of an epoch.
  [[nodiscard]] int64_t max_batches() const;

  [[nodiscard]] EpochItems epoch(int64_t epoch) const;

  [[nodiscard]] const ItemSamplerOptions& options() const { return options_; }

 private:
  explicit ItemSampler(const ItemSamplerOptions& options) : options_(options) {}

  [[nodiscard]] RankShare slice_of(int64_t rank) const;
  [[nodiscard]] int64_t slice_items(int64_t rank) const;

  ItemSamplerOptions options_;
};

}  // namespace gnn::sampling::core
