#include "worker/sampling/core/item_sampler.h"

#include "tests/worker/sampling/core/chi_square.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace gnn::sampling::core {
namespace {

ItemSampler make(const ItemSamplerOptions& options) {
  return ItemSampler::create(options).value();
}

std::vector<int64_t> items_of(const EpochItems& epoch) {
  std::vector<int64_t> items;
  for (int64_t i = 0; i < epoch.num_batches(); ++i) {
    const auto batch = epoch.batch(i);
    items.insert(items.end(), batch.begin(), batch.end());
  }
  return items;
}

// What the rule says, by dealing batch after batch instead of by formula: rounds of one whole batch
// per rank; then what is left, in batches, one per rank. A rank's items are contiguous in the
// global order.
std::vector<int64_t> dealt_counts(int64_t num_items, int64_t batch_size, int64_t world_size) {
  std::vector<int64_t> counts(static_cast<size_t>(world_size));
  int64_t left = num_items;
  while (left > 0) {
    for (int64_t& count : counts) {
      const int64_t batch = std::min(left, batch_size);
      count += batch;
      left -= batch;
    }
  }
  return counts;
}

struct Layout {
  int64_t num_items;
  int64_t batch_size;
  int64_t world_size;
};

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const int64_t batch_size : {1, 3, 8}) {
    for (const int64_t world_size : {1, 2, 3, 5}) {
      for (int64_t num_items = 0; num_items < 60; ++num_items)
        all.push_back({num_items, batch_size, world_size});
    }
  }
  return all;
}

ItemSamplerOptions options_of(const Layout& layout, int64_t rank) {
  ItemSamplerOptions options;
  options.num_items = layout.num_items;
  options.batch_size = layout.batch_size;
  options.world_size = layout.world_size;
  options.rank = rank;
  return options;
}

std::string describe(const Layout& layout) {
  return std::to_string(layout.num_items) + " items in batches of " +
         std::to_string(layout.batch_size) + " on " + std::to_string(layout.world_size) + " ranks";
}

TEST(ContiguousSlices, AreThoseOfGraphBoltForArxiv) {
  // 90,941 training nodes, 4 ranks, batches of 1,024.
  const Layout arxiv{90941, 1024, 4};
  const ItemSampler sampler = make(options_of(arxiv, 0));
  EXPECT_EQ(sampler.share_of(0).num_items, 23357);
  EXPECT_EQ(sampler.share_of(0).num_batches, 23);
  for (int64_t rank = 1; rank < 4; ++rank) {
    EXPECT_EQ(sampler.share_of(rank).num_items, 22528);
    EXPECT_EQ(sampler.share_of(rank).num_batches, 22);
    EXPECT_EQ(sampler.share_of(rank).first, 23357 + (rank - 1) * 22528);
  }
  EXPECT_EQ(sampler.max_batches(), 23);
}

TEST(ContiguousSlices, CoverEveryItemOnceInOrder) {
  for (const Layout& layout : layouts()) {
    const auto dealt = dealt_counts(layout.num_items, layout.batch_size, layout.world_size);
    std::vector<int64_t> all;
    for (int64_t rank = 0; rank < layout.world_size; ++rank) {
      const EpochItems epoch = make(options_of(layout, rank)).epoch(0);
      const auto items = items_of(epoch);
      ASSERT_EQ(static_cast<int64_t>(items.size()), dealt[static_cast<size_t>(rank)])
          << describe(layout);
      for (int64_t i = 0; i < epoch.num_batches(); ++i)
        ASSERT_EQ(epoch.batch(i)[0], epoch.stream(i));
      all.insert(all.end(), items.begin(), items.end());
    }
    std::vector<int64_t> expected(static_cast<size_t>(layout.num_items));
    std::iota(expected.begin(), expected.end(), 0);
    ASSERT_EQ(all, expected) << describe(layout);
  }
}

TEST(ContiguousSlices, WithDropLastHaveOnlyWholeBatches) {
  for (const Layout& layout : layouts()) {
    const auto dealt = dealt_counts(layout.num_items, layout.batch_size, layout.world_size);
    for (int64_t rank = 0; rank < layout.world_size; ++rank) {
      ItemSamplerOptions options = options_of(layout, rank);
      options.drop_last = true;
      const RankShare share = make(options).share_of(rank);
      ASSERT_EQ(share.num_batches, dealt[static_cast<size_t>(rank)] / layout.batch_size)
          << describe(layout);
      ASSERT_EQ(share.num_items, share.num_batches * layout.batch_size);
    }
  }
}

TEST(ContiguousSlices, WithDropUnevenInputsHaveEqualBatchCounts) {
  for (const Layout& layout : layouts()) {
    for (const bool drop_last : {false, true}) {
      // Without drop_last all ranks stop with the last one, whose count is the smallest.
      const int64_t smallest =
          dealt_counts(layout.num_items, layout.batch_size, layout.world_size).back();
      const int64_t expected = drop_last ? smallest / layout.batch_size
                                         : (smallest + layout.batch_size - 1) / layout.batch_size;
      for (int64_t rank = 0; rank < layout.world_size; ++rank) {
        ItemSamplerOptions options = options_of(layout, rank);
        options.drop_last = drop_last;
        options.drop_uneven_inputs = true;
        ASSERT_EQ(make(options).num_batches(), expected) << describe(layout) << ", rank " << rank;
      }
    }
  }
}

TEST(StridedSplits, AreThoseOfDistributedSampler) {
  for (const Layout& layout : layouts()) {
    std::vector<int64_t> padded(static_cast<size_t>(layout.num_items));
    std::iota(padded.begin(), padded.end(), 0);
    for (size_t i = 0;
         !padded.empty() && padded.size() % static_cast<size_t>(layout.world_size) != 0;
         ++i) {
      padded.push_back(padded[i]);
    }
    const size_t whole =
        static_cast<size_t>(layout.num_items / layout.world_size * layout.world_size);
    for (int64_t rank = 0; rank < layout.world_size; ++rank) {
      std::vector<int64_t> with_padding;
      std::vector<int64_t> truncated;
      for (auto i = static_cast<size_t>(rank); i < padded.size();
           i += static_cast<size_t>(layout.world_size)) {
        with_padding.push_back(padded[i]);
        if (i < whole) truncated.push_back(padded[i]);
      }
      ItemSamplerOptions options = options_of(layout, rank);
      options.split = SplitRule::PaddedStride;
      ASSERT_EQ(items_of(make(options).epoch(0)), with_padding) << describe(layout);
      options.split = SplitRule::TruncatedStride;
      ASSERT_EQ(items_of(make(options).epoch(0)), truncated) << describe(layout);
    }
  }
}

TEST(StridedSplits, GiveTheSevenBatchesOfDglsGraphClassificationTutorial) {
  // 800 graphs on 4 ranks, batches of 32: 200 graphs, 7 batches each.
  ItemSamplerOptions options = options_of({800, 32, 4}, 2);
  options.split = SplitRule::PaddedStride;
  EXPECT_EQ(make(options).num_batches(), 7);
}

TEST(ItemSampler, MaxBatchesIsThatOfTheBusiestRank) {
  for (const Layout& layout : layouts()) {
    for (const SplitRule split :
         {SplitRule::ContiguousSlices, SplitRule::PaddedStride, SplitRule::TruncatedStride}) {
      ItemSamplerOptions options = options_of(layout, 0);
      options.split = split;
      const ItemSampler sampler = make(options);
      int64_t most = 0;
      for (int64_t rank = 0; rank < layout.world_size; ++rank) {
        most = std::max(most, sampler.share_of(rank).num_batches);
      }
      ASSERT_EQ(sampler.max_batches(), most) << describe(layout);
    }
  }
}

// Partitions of a list and the nodes that hold them.
struct OwnerLayout {
  std::vector<int64_t> part_sizes;
  int64_t nodes;
  int64_t ranks_per_node;
  int64_t batch_size;

  [[nodiscard]] int64_t parts() const { return static_cast<int64_t>(part_sizes.size()); }
  [[nodiscard]] int64_t world_size() const { return nodes * ranks_per_node; }
};

std::vector<OwnerLayout> owner_layouts() {
  std::vector<OwnerLayout> all;
  const std::vector<std::vector<int64_t>> sizes = {
      {17}, {9, 9}, {0, 31}, {20, 1}, {13, 0, 29}, {5, 40, 8, 11}
  };
  for (const std::vector<int64_t>& part_sizes : sizes) {
    const auto parts = static_cast<int64_t>(part_sizes.size());
    for (const int64_t nodes : {parts, parts + 1, 2 * parts}) {
      for (const int64_t ranks_per_node : {1, 2, 3}) {
        for (const int64_t batch_size : {1, 4})
          all.push_back({part_sizes, nodes, ranks_per_node, batch_size});
      }
    }
  }
  return all;
}

std::string describe(const OwnerLayout& layout) {
  return ::testing::PrintToString(layout.part_sizes) + " items on " + std::to_string(layout.nodes) +
         " nodes of " + std::to_string(layout.ranks_per_node) + " ranks in batches of " +
         std::to_string(layout.batch_size);
}

// Partitions that lie interleaved in the list as long as they have items.
std::shared_ptr<const ItemParts> interleaved_parts(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> bounds = {0};
  for (const int64_t size : sizes) bounds.push_back(bounds.back() + size);
  std::vector<int64_t> nodes;
  for (int64_t i = 0; static_cast<int64_t>(nodes.size()) < bounds.back(); ++i) {
    for (size_t part = 0; part < sizes.size(); ++part) {
      if (i < sizes[part]) nodes.push_back(bounds[part] + i);
    }
  }
  return std::make_shared<const ItemParts>(items_by_part(nodes, bounds));
}

ItemSamplerOptions options_of(const OwnerLayout& layout, int64_t rank) {
  ItemSamplerOptions options;
  options.split = SplitRule::Owner;
  options.parts = interleaved_parts(layout.part_sizes);
  options.num_items = static_cast<int64_t>(options.parts->items.size());
  options.batch_size = layout.batch_size;
  options.world_size = layout.world_size();
  options.ranks_per_node = layout.ranks_per_node;
  options.rank = rank;
  return options;
}

// The ranks of each partition's holders, in ascending order.
std::vector<std::vector<int64_t>> holders_of(const OwnerLayout& layout) {
  std::vector<std::vector<int64_t>> holders(layout.part_sizes.size());
  for (int64_t rank = 0; rank < layout.world_size(); ++rank) {
    const int64_t node = rank / layout.ranks_per_node;
    holders[static_cast<size_t>(node % layout.parts())].push_back(rank);
  }
  return holders;
}

// How many items each rank gets, by dealing.
std::vector<int64_t> owned_counts(const OwnerLayout& layout) {
  std::vector<int64_t> counts(static_cast<size_t>(layout.world_size()));
  const auto holders = holders_of(layout);
  for (size_t part = 0; part < holders.size(); ++part) {
    const auto dealt = dealt_counts(
        layout.part_sizes[part], layout.batch_size, static_cast<int64_t>(holders[part].size())
    );
    for (size_t i = 0; i < dealt.size(); ++i)
      counts[static_cast<size_t>(holders[part][i])] = dealt[i];
  }
  return counts;
}

TEST(OwnerShares, DealEachPartitionsItemsOnceToItsHoldersAndCountTheBatchesOfAllRanks) {
  for (const OwnerLayout& layout : owner_layouts()) {
    const auto counts = owned_counts(layout);
    const auto holders = holders_of(layout);
    int64_t stream = 0;
    std::vector<int64_t> all;
    for (size_t part = 0; part < holders.size(); ++part) {
      for (const int64_t rank : holders[part]) {
        const ItemSamplerOptions options = options_of(layout, rank);
        const EpochItems epoch = make(options).epoch(0);
        const auto items = items_of(epoch);
        ASSERT_EQ(static_cast<int64_t>(items.size()), counts[static_cast<size_t>(rank)])
            << describe(layout);
        // The stream is the number of items of lower partitions and of lower ranks of this one.
        for (int64_t i = 0; i < epoch.num_batches(); ++i) {
          ASSERT_EQ(epoch.stream(i), stream) << describe(layout);
          stream += static_cast<int64_t>(epoch.batch(i).size());
        }
        all.insert(all.end(), items.begin(), items.end());
      }
    }
    ASSERT_EQ(all, interleaved_parts(layout.part_sizes)->items) << describe(layout);

    for (const bool drop_last : {false, true}) {
      for (const bool drop_uneven_inputs : {false, true}) {
        std::vector<int64_t> expected;
        for (const int64_t count : counts) {
          const int64_t partial = drop_last ? 0 : layout.batch_size - 1;
          expected.push_back((count + partial) / layout.batch_size);
        }
        const int64_t least = *std::min_element(expected.begin(), expected.end());
        if (drop_uneven_inputs) expected.assign(expected.size(), least);
        ItemSamplerOptions options = options_of(layout, 0);
        options.drop_last = drop_last;
        options.drop_uneven_inputs = drop_uneven_inputs;
        const ItemSampler sampler = make(options);
        for (int64_t rank = 0; rank < layout.world_size(); ++rank) {
          ASSERT_EQ(sampler.share_of(rank).num_batches, expected[static_cast<size_t>(rank)])
              << describe(layout) << ", rank " << rank;
        }
        ASSERT_EQ(sampler.max_batches(), *std::max_element(expected.begin(), expected.end()));
      }
    }
  }
}

// The items of one partition in the order in which its holders train on them.
std::vector<int64_t> order_of_part(const OwnerLayout& layout, size_t part) {
  std::vector<int64_t> order;
  const std::vector<int64_t> holders = holders_of(layout)[part];
  for (const int64_t rank : holders) {
    ItemSamplerOptions options = options_of(layout, rank);
    options.shuffle = true;
    options.seed = 5;
    const auto items = items_of(make(options).epoch(3));
    order.insert(order.end(), items.begin(), items.end());
  }
  return order;
}

TEST(OwnerShares, KeepTheListsOrderInsideAPartitionOrShuffleItByAKeyOfItsOwn) {
  const ItemParts in_order =
      items_by_part(std::vector<int64_t>{7, 0, 3, 8, 2, 7}, std::vector<int64_t>{0, 3, 3, 8, 9});
  EXPECT_EQ(in_order.items, (std::vector<int64_t>{1, 4, 0, 2, 5, 3}));
  EXPECT_EQ(in_order.offsets, (std::vector<int64_t>{0, 2, 2, 5, 6}));

  const OwnerLayout two_nodes{{40, 40}, 2, 1, 4};
  const auto first = order_of_part(two_nodes, 0);
  const auto second = order_of_part(two_nodes, 1);
  // Interleaved, the i-th item of partition 1 is the one behind the i-th of partition 0.
  std::vector<int64_t> same_order = first;
  for (int64_t& item : same_order) ++item;
  EXPECT_NE(second, same_order);
  auto sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_NE(sorted, first);
  EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
  // Neither depends on who holds it.
  EXPECT_EQ(order_of_part({{40, 40}, 5, 2, 3}, 0), first);
  EXPECT_EQ(order_of_part({{40, 40}, 4, 1, 4}, 1), second);
  // One partition is what ContiguousSlices deal.
  ItemSamplerOptions whole = options_of({40, 4, 1}, 0);
  whole.shuffle = true;
  whole.seed = 5;
  EXPECT_EQ(order_of_part({{40}, 1, 1, 4}, 0), items_of(make(whole).epoch(3)));
}

TEST(EpochShuffle, DealsAPermutationOverAllRanks) {
  ItemSamplerOptions options = options_of({1000, 16, 3}, 0);
  options.shuffle = true;
  options.seed = 5;
  std::vector<int64_t> all;
  for (options.rank = 0; options.rank < 3; ++options.rank) {
    const auto items = items_of(make(options).epoch(4));
    all.insert(all.end(), items.begin(), items.end());
  }
  EXPECT_FALSE(std::is_sorted(all.begin(), all.end()));
  std::sort(all.begin(), all.end());
  std::vector<int64_t> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST(EpochShuffle, DependsOnSeedAndEpochOnly) {
  ItemSamplerOptions options = options_of({100, 10, 1}, 0);
  options.shuffle = true;
  options.seed = 5;
  const auto base = items_of(make(options).epoch(1));
  EXPECT_EQ(items_of(make(options).epoch(1)), base);
  EXPECT_NE(items_of(make(options).epoch(2)), base);
  options.seed = 6;
  EXPECT_NE(items_of(make(options).epoch(1)), base);
}

TEST(EpochShuffle, IsUniform) {
  ItemSamplerOptions options = options_of({20, 20, 1}, 0);
  options.shuffle = true;
  const ItemSampler sampler = make(options);
  std::vector<std::vector<int64_t>> counts(20, std::vector<int64_t>(20));
  constexpr int64_t kEpochs = 4000;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const EpochItems items = sampler.epoch(epoch);
    for (size_t position = 0; position < 20; ++position) {
      ++counts[position][static_cast<size_t>(items.batch(0)[position])];
    }
  }
  for (const auto& at_position : counts)
    EXPECT_LT(chi_square_deviation(at_position, kEpochs, 1.0 / 20), 5);
}

TEST(ItemSampler, RefusesInvalidOptions) {
  const auto message = [](const ItemSamplerOptions& options) {
    const auto sampler = ItemSampler::create(options);
    EXPECT_EQ(sampler.error().kind, ErrorKind::Configuration);
    return sampler.error().message;
  };
  const Layout layout{10, 2, 2};
  ItemSamplerOptions options = options_of(layout, 0);
  options.batch_size = 0;
  EXPECT_NE(message(options).find("batch_size must be at least 1, found 0"), std::string::npos);
  options = options_of(layout, 2);
  EXPECT_NE(message(options).find("rank must be in [0, 2), found 2"), std::string::npos);
  options = options_of(layout, 0);
  options.num_items = -1;
  EXPECT_NE(message(options).find("num_items"), std::string::npos);
  options = options_of(layout, 0);
  options.world_size = 0;
  EXPECT_NE(message(options).find("world_size"), std::string::npos);
  options = options_of(layout, 0);
  options.split = SplitRule::PaddedStride;
  options.drop_uneven_inputs = true;
  EXPECT_NE(message(options).find("drop_uneven_inputs"), std::string::npos);
  options = options_of({{5, 5}, 2, 2, 2}, 0);
  options.world_size = 2;
  EXPECT_NE(message(options).find("found 2 partitions and 1 nodes"), std::string::npos);
  options.world_size = 3;
  EXPECT_NE(message(options).find("expected a multiple of ranks_per_node, 2"), std::string::npos);
  options = options_of({{5, 5}, 2, 1, 2}, 0);
  options.num_items = 11;
  EXPECT_NE(message(options).find("expected 11 items in all partitions"), std::string::npos);
  options.split = SplitRule::ContiguousSlices;
  EXPECT_NE(message(options).find("parts must be given if and only if"), std::string::npos);
}

// Whoever makes batches of all ranks deals as each of them does.
TEST(ItemSampler, DealsTheBatchesOfAnyRankFromTheOrderThatItsPartitionShares) {
  std::vector<ItemSamplerOptions> all;
  for (const SplitRule split :
       {SplitRule::ContiguousSlices, SplitRule::PaddedStride, SplitRule::TruncatedStride}) {
    all.push_back(options_of({53, 4, 3}, 0));
    all.back().split = split;
  }
  all.push_back(options_of({{13, 0, 30}, 4, 4, 2}, 0));
  for (ItemSamplerOptions& options : all) {
    options.shuffle = true;
    const ItemSampler any = make(options);
    for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
      const EpochItems epoch = make(options).epoch(3);
      const EpochOrder order = any.order_for(options.rank, 3);
      EXPECT_EQ(any.share_of(options.rank).num_batches, epoch.num_batches());
      for (int64_t index = 0; index < epoch.num_batches(); ++index) {
        const DealtBatch dealt = any.batch_of(order, options.rank, index);
        const auto expected = epoch.batch(index);
        EXPECT_EQ(dealt.items, std::vector<int64_t>(expected.begin(), expected.end()));
        EXPECT_EQ(dealt.stream, epoch.stream(index));
      }
    }
  }
}

TEST(ItemSampler, GivesSmallSetsOneSmallBatch) {
  const EpochItems epoch = make(options_of({3, 8, 1}, 0)).epoch(0);
  EXPECT_EQ(epoch.num_batches(), 1);
  EXPECT_EQ(epoch.batch(0).size(), 3U);
}

}  // namespace
}  // namespace gnn::sampling::core
