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

// GraphBolt's count_split: rounds of one batch per rank; the whole batches left go to the first
// ranks, and the last, smaller batch to the rank after those.
int64_t slice_items(int64_t num_items, int64_t batch, int64_t rank, int64_t ranks) {
  const int64_t rounds = num_items / (ranks * batch);
  const int64_t remainder = num_items % (ranks * batch);
  const int64_t whole_batches = remainder / batch;
  return rounds * batch + (rank < whole_batches    ? batch
                           : rank == whole_batches ? remainder % batch
                                                   : 0);
}

int64_t batches_of(int64_t num_items, const ItemSamplerOptions& options) {
  return options.drop_last ? num_items / options.batch_size
                           : ceil_div(num_items, options.batch_size);
}

// What is wrong with the options of the rule Owner, or nothing.
std::string problem_of_parts(const ItemSamplerOptions& options) {
  if ((options.split == SplitRule::Owner) != (options.parts != nullptr))
    return "parts must be given if and only if the split is Owner";
  if (options.parts == nullptr) return {};
  const ItemParts& parts = *options.parts;
  const int64_t items = parts.items.empty() && !parts.offsets.empty()
                            ? parts.offsets.back()
                            : static_cast<int64_t>(parts.items.size());
  if (items != options.num_items) {
    return "expected " + std::to_string(options.num_items) + " items in all partitions, found " +
           std::to_string(items);
  }
  if (options.ranks_per_node < 1 || options.world_size % options.ranks_per_node != 0) {
    return "expected a multiple of ranks_per_node, " + std::to_string(options.ranks_per_node) +
           ", as world_size, found " + std::to_string(options.world_size);
  }
  const int64_t nodes = options.world_size / options.ranks_per_node;
  if (parts.count() < 1 || parts.count() > nodes) {
    return "expected at least one partition, and a node for each, found " +
           std::to_string(parts.count()) + " partitions and " + std::to_string(nodes) + " nodes";
  }
  return {};
}

}  // namespace

ItemParts items_by_part(std::span<const int64_t> nodes, std::span<const int64_t> bounds) {
  const auto part_of = [bounds](int64_t node) {
    return static_cast<size_t>(
               std::upper_bound(bounds.begin(), bounds.end(), node) - bounds.begin()
           ) -
           1;
  };
  ItemParts parts{
      .items = std::vector<int64_t>(nodes.size()), .offsets = std::vector<int64_t>(bounds.size())
  };
  for (const int64_t node : nodes) ++parts.offsets[part_of(node) + 1];
  std::partial_sum(parts.offsets.begin(), parts.offsets.end(), parts.offsets.begin());
  std::vector<int64_t> next(parts.offsets.begin(), parts.offsets.end() - 1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    int64_t& place = next[part_of(nodes[i])];
    parts.items[static_cast<size_t>(place++)] = static_cast<int64_t>(i);
  }
  return parts;
}

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
  if (options.drop_uneven_inputs && options.split != SplitRule::ContiguousSlices &&
      options.split != SplitRule::Owner) {
    return invalid(
        "drop_uneven_inputs goes with contiguous slices only; strided splits are even by themselves"
    );
  }
  const std::string problem = problem_of_parts(options);
  if (!problem.empty()) return invalid(problem);
  return ItemSampler(options);
}

ItemSampler::ItemSampler(const ItemSamplerOptions& options) : options_(options) {
  if (!options_.drop_uneven_inputs) return;
  // Of the ranks that share items the last one has the fewest.
  const int64_t deals = options_.parts == nullptr ? 1 : options_.parts->count();
  for (int64_t i = 0; i < deals; ++i) {
    const Deal deal = deal_of(i * options_.ranks_per_node);
    const int64_t items =
        slice_items(deal.num_items, options_.batch_size, deal.ranks - 1, deal.ranks);
    const int64_t batches = batches_of(items, options_);
    even_batches_ = i == 0 ? batches : std::min(even_batches_, batches);
  }
}

ItemSampler::Deal ItemSampler::deal_of(int64_t rank) const {
  if (options_.split != SplitRule::Owner)
    return {.num_items = options_.num_items, .rank = rank, .ranks = options_.world_size};
  const ItemParts& parts = *options_.parts;
  const int64_t on_node = options_.ranks_per_node;
  const int64_t nodes = options_.world_size / on_node;
  const int64_t node = rank / on_node;
  const int64_t part = node % parts.count();
  const int64_t holders = (nodes - part + parts.count() - 1) / parts.count();
  return {
      .first = parts.offsets[static_cast<size_t>(part)],
      .num_items = parts.size_of(part),
      .rank = node / parts.count() * on_node + rank % on_node,
      .ranks = holders * on_node,
      .part = part,
  };
}

RankShare ItemSampler::slice_of(int64_t rank) const {
  const Deal deal = deal_of(rank);
  const int64_t batch = options_.batch_size;
  const int64_t rounds = deal.num_items / (deal.ranks * batch);
  const int64_t remainder = deal.num_items % (deal.ranks * batch);
  RankShare share;
  share.first = deal.first + rounds * deal.rank * batch + std::min(deal.rank * batch, remainder);
  share.num_items = slice_items(deal.num_items, batch, deal.rank, deal.ranks);
  if (options_.drop_uneven_inputs)
    share.num_items = std::min(share.num_items, even_batches_ * batch);
  return share;
}

RankShare ItemSampler::share_of(int64_t rank) const {
  RankShare share;
  switch (options_.split) {
    case SplitRule::ContiguousSlices:
    case SplitRule::Owner:
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
  // Shares never grow with the rank among those who share items.
  if (options_.parts == nullptr) return share_of(0).num_batches;
  int64_t most = 0;
  for (int64_t part = 0; part < options_.parts->count(); ++part)
    most = std::max(most, share_of(part * options_.ranks_per_node).num_batches);
  return most;
}

EpochOrder ItemSampler::order_of(const Deal& deal, int64_t epoch) const {
  EpochOrder made{
      .first = deal.first, .items = std::vector<int64_t>(static_cast<size_t>(deal.num_items))
  };
  std::vector<int64_t>& order = made.items;
  if (options_.parts == nullptr) {
    std::iota(order.begin(), order.end(), int64_t{0});
  } else {
    GNN_ASSERT(
        deal.num_items == 0 || !options_.parts->items.empty(),
        "who knows counts alone asks for no epoch"
    );
    std::copy_n(options_.parts->items.begin() + deal.first, deal.num_items, order.begin());
  }
  if (!options_.shuffle) return made;
  const StreamPosition position{.seed = options_.seed, .epoch = static_cast<uint64_t>(epoch)};
  CounterRng rng(
      derive_key(position, StreamPurpose::EpochShuffle), 0, static_cast<uint64_t>(deal.part)
  );
  for (size_t remaining = order.size(); remaining > 1; --remaining) {
    std::swap(order[remaining - 1], order[rng.below(remaining)]);
  }
  return made;
}

std::vector<int64_t> ItemSampler::cut(
    const EpochOrder& order, const RankShare& share, int64_t begin, int64_t end
) {
  std::vector<int64_t> items;
  items.reserve(static_cast<size_t>(end - begin));
  for (int64_t i = begin; i < end; ++i) {
    // The modulo matters only for padding, which repeats the list from its start as torch does.
    const int64_t position =
        (share.first - order.first + i * share.stride) % static_cast<int64_t>(order.items.size());
    items.push_back(order.items[static_cast<size_t>(position)]);
  }
  return items;
}

int64_t ItemSampler::partition_of(int64_t rank) const {
  return options_.parts == nullptr ? -1 : deal_of(rank).part;
}

EpochOrder ItemSampler::order_for(int64_t rank, int64_t epoch) const {
  return order_of(deal_of(rank), epoch);
}

DealtBatch ItemSampler::batch_of(const EpochOrder& order, int64_t rank, int64_t index) const {
  const RankShare share = share_of(rank);
  const int64_t begin = index * options_.batch_size;
  return {
      .items = cut(order, share, begin, std::min(begin + options_.batch_size, share.num_items)),
      .stream = share.first + begin * share.stride
  };
}

EpochItems ItemSampler::epoch(int64_t epoch) const {
  const RankShare share = share_of(options_.rank);
  return {
      share, options_.batch_size, cut(order_for(options_.rank, epoch), share, 0, share.num_items)
  };
}

}  // namespace gnn::sampling::core
