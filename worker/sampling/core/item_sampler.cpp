#include "worker/sampling/core/item_sampler.h"

#include "worker/sampling/core/rng.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace gnn::sampling::core {

namespace {

int64_t ceil_div(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

std::vector<int64_t> global_order(const ItemSamplerOptions& options, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(options.num_items));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (!options.shuffle) return order;
  CounterRng rng(
      derive_key(
          {.seed = options.seed, .epoch = static_cast<uint64_t>(epoch)}, StreamPurpose::EpochShuffle
      ),
      0,
      0
  );
  for (size_t remaining = order.size(); remaining > 1; --remaining) {
    std::swap(order[remaining - 1], order[rng.below(remaining)]);
  }
  return order;
}

}  // namespace

std::span<const int64_t> EpochItems::batch(int64_t index) const {
  const int64_t begin = index * batch_size_;
  const int64_t size = std::min(batch_size_, share_.num_items - begin);
  return std::span(items_).subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
}

Result<ItemSampler> ItemSampler::create(const ItemSamplerOptions& options) {
  const auto invalid = [](const std::string& what) {
    return fail(ErrorKind::Configuration, "item sampler: " + what);
  };
  if (options.num_items < 0) {
    return invalid("num_items must not be negative, found " + std::to_string(options.num_items));
  }
  if (options.batch_size < 1) {
    return invalid("batch_size must be at least 1, found " + std::to_string(options.batch_size));
  }
  if (options.world_size < 1) {
    return invalid("world_size must be at least 1, found " + std::to_string(options.world_size));
  }
  if (options.rank < 0 || options.rank >= options.world_size) {
    return invalid(
        "rank must be in [0, " + std::to_string(options.world_size) + "), found " +
        std::to_string(options.rank)
    );
  }
  if (options.drop_uneven_inputs && options.split != SplitRule::ContiguousSlices) {
    return invalid(
        "drop_uneven_inputs goes with contiguous slices only; strided splits are even by themselves"
    );
  }
  return ItemSampler(options);
}

// GraphBolt's count_split: rounds of one batch per rank; the whole batches left go to the first
// ranks, and the last, smaller batch to the rank after those.
int64_t ItemSampler::slice_items(int64_t rank) const {
  const int64_t batch = options_.batch_size;
  const int64_t rounds = options_.num_items / (options_.world_size * batch);
  const int64_t remainder = options_.num_items % (options_.world_size * batch);
  const int64_t whole_batches = remainder / batch;
  return rounds * batch + (rank < whole_batches    ? batch
                           : rank == whole_batches ? remainder % batch
                                                   : 0);
}

RankShare ItemSampler::slice_of(int64_t rank) const {
  const int64_t batch = options_.batch_size;
  const int64_t ranks = options_.world_size;
  const int64_t rounds = options_.num_items / (ranks * batch);
  const int64_t remainder = options_.num_items % (ranks * batch);
  RankShare share;
  share.first = rounds * rank * batch + std::min(rank * batch, remainder);
  share.num_items = slice_items(rank);
  if (options_.drop_uneven_inputs) {
    const int64_t even =
        options_.drop_last ? rounds * batch : ceil_div(slice_items(ranks - 1), batch) * batch;
    share.num_items = std::min(share.num_items, even);
  }
  return share;
}

RankShare ItemSampler::share_of(int64_t rank) const {
  RankShare share;
  switch (options_.split) {
    case SplitRule::ContiguousSlices:
      share = slice_of(rank);
      break;
    case SplitRule::PaddedStride:
      share = {.first = rank, .stride = options_.world_size};
      share.num_items = ceil_div(options_.num_items, options_.world_size);
      break;
    case SplitRule::TruncatedStride:
      share = {.first = rank, .stride = options_.world_size};
      share.num_items = options_.num_items / options_.world_size;
      break;
  }
  if (options_.drop_last) share.num_items -= share.num_items % options_.batch_size;
  share.num_batches = ceil_div(share.num_items, options_.batch_size);
  return share;
}

int64_t ItemSampler::max_batches() const {
  // Shares never grow with the rank.
  return share_of(0).num_batches;
}

EpochItems ItemSampler::epoch(int64_t epoch) const {
  const RankShare share = share_of(options_.rank);
  const std::vector<int64_t> order = global_order(options_, epoch);
  std::vector<int64_t> items(static_cast<size_t>(share.num_items));
  for (int64_t i = 0; i < share.num_items; ++i) {
    // The modulo matters only for padding, which repeats the list from its start as torch does.
    const int64_t position = (share.first + i * share.stride) % options_.num_items;
    items[static_cast<size_t>(i)] = order[static_cast<size_t>(position)];
  }
  return {share, options_.batch_size, std::move(items)};
}

}  // namespace gnn::sampling::core
