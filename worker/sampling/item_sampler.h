#pragma once

#include "common/result.h"

#include <cstdint>
#include <span>
#include <vector>

namespace gnn::sampling {

/// How the items of an epoch's global order are dealt to the ranks.
enum class SplitRule {
  ContiguousSlices,  ///< GraphBolt's DistributedItemSampler: whole batches first, rank r takes a
                     ///< slice; no item twice.
  PaddedStride,  ///< torch's DistributedSampler: padded by repetition to a multiple of the ranks,
                 ///< then every R-th item.
  TruncatedStride,  ///< torch's DistributedSampler(drop_last=True): the tail is cut, then every
                    ///< R-th item.
};

struct ItemSamplerOptions {
  int64_t num_items = 0;
  int64_t batch_size = 1;  ///< Items per rank and step.
  int64_t rank = 0;
  int64_t world_size = 1;
  SplitRule split = SplitRule::ContiguousSlices;
  bool shuffle = false;
  bool drop_last = false;  ///< No batch smaller than batch_size.
  bool drop_uneven_inputs =
      false;          ///< The same number of batches on every rank; only for ContiguousSlices.
  uint64_t seed = 0;  ///< The same on every rank.
};

/// One rank's part of the item list in closed form.
struct RankShare {
  int64_t first = 0;        ///< Position of the rank's first item in the epoch's global order.
  int64_t stride = 1;       ///< Distance of its items in that order.
  int64_t num_items = 0;    ///< Items that the rank gives out.
  int64_t num_batches = 0;  ///< Batches that the rank gives out.
};

/// A rank's items of one epoch, in batches.
class EpochItems {
 public:
  EpochItems(RankShare share, int64_t batch_size, std::vector<int64_t> items)
      : share_(share), batch_size_(batch_size), items_(std::move(items)) {}

  [[nodiscard]] int64_t num_batches() const { return share_.num_batches; }
  /// Indices into the item list, each in [0, num_items).
  [[nodiscard]] std::span<const int64_t> batch(int64_t index) const;
  /// Position of the batch's first item in the epoch's global order: names the batch's random
  /// stream on any rank layout.
  [[nodiscard]] int64_t stream(int64_t index) const {
    return share_.first + index * batch_size_ * share_.stride;
  }

 private:
  RankShare share_;
  int64_t batch_size_;
  std::vector<int64_t> items_;
};

/// Deals item indices to ranks and batches. All ranks shuffle the global list alike and take their
/// part of it. The shuffle is Fisher-Yates on our counter-based generator, keyed by (seed, epoch):
/// the same on every machine, but not torch.randperm's order, so that a run does not visit items in
/// the order of a PyTorch run with the same seed.
class ItemSampler {
 public:
  /// Errors: Configuration, naming the option: batch_size < 1, rank outside the world, negative
  /// num_items, drop_uneven_inputs with a stride rule (those are always even).
  [[nodiscard]] static Result<ItemSampler> create(const ItemSamplerOptions& options);

  /// Any rank's share; every rank can compute every other's, so none needs to ask.
  [[nodiscard]] RankShare share_of(int64_t rank) const;
  [[nodiscard]] int64_t num_batches() const { return share_of(options_.rank).num_batches; }
  /// The largest number of batches of any rank: how many steps an epoch has.
  [[nodiscard]] int64_t max_batches() const;

  [[nodiscard]] EpochItems epoch(int64_t epoch) const;

  [[nodiscard]] const ItemSamplerOptions& options() const { return options_; }

 private:
  explicit ItemSampler(const ItemSamplerOptions& options) : options_(options) {}

  [[nodiscard]] RankShare slice_of(int64_t rank) const;
  [[nodiscard]] int64_t slice_items(int64_t rank) const;

  ItemSamplerOptions options_;
};

}  // namespace gnn::sampling
