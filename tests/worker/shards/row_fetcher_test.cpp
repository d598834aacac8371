#include "worker/shards/row_fetcher.h"

#include "tests/worker/shards/parts.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace gnn::shards {
namespace {

ShopSampling no_sampling() {
  ShopSampling sampling;
  sampling.options.fanout = {1};
  return sampling;
}

std::shared_ptr<RowFetcher> fetcher_of(
    const Job& job, int64_t part, int64_t type, std::shared_ptr<const RowCache> cache = nullptr
) {
  return RowFetcher::create(
             {.index = static_cast<uint32_t>(type), .node_type = type},
             job.part(part),
             job.part(part)->features(type),
             job.peers_of(part),
             std::move(cache)
  )
      .value();
}

at::Tensor all_mixed(int64_t nodes) {
  return at::cat(
      {at::arange(nodes, at::kLong) * 17 % nodes, at::arange(nodes - 1, -1, -3, at::kLong)}
  );
}

TEST(RowFetcher, GivesTheRowsOfOneProcessAndMovesNoByteMore) {
  for (int64_t parts = 1; parts <= 4; ++parts) {
    const Shop shop(parts);
    for (int64_t part = 0; part < parts; ++part) {
      SCOPED_TRACE(std::to_string(parts) + " parts, part " + std::to_string(part));
      const Job job(shop, no_sampling(), /*extracted=*/part % 2 == 1);
      const auto fetcher = fetcher_of(job, part, 0);
      // Of two parts, more than one message can ask for.
      const at::Tensor ids = all_mixed(Shop::kUsers).repeat({parts == 2 ? 200 : 1});
      const auto rows = fetcher->submit(ids).get();
      ASSERT_TRUE(rows) << rows.error().message;
      EXPECT_TRUE(rows->equal(shop.whole().node_types[0].features->rows().index_select(0, ids)));
      const data::IdRange own = job.part(part)->own(0);
      const int64_t local =
          at::logical_and(ids.ge(own.begin), ids.lt(own.end)).sum().item<int64_t>();
      const RowCounts counts = fetcher->counts();
      EXPECT_EQ(counts.local, local);
      EXPECT_EQ(counts.hits, 0);
      EXPECT_EQ(counts.remote, ids.numel() - local);
      EXPECT_EQ(counts.remote_bytes, (ids.numel() - local) * 20);
      EXPECT_EQ(job.payload_bytes(), counts.remote_bytes);
    }
  }
}

TEST(RowFetcher, AsksNobodyForRowsInItsCache) {
  const Shop shop(3);
  const Job job(shop, no_sampling(), /*extracted=*/true);
  const at::Tensor hot = at::tensor({299, 0, 150, 41}, at::kLong);
  SilentProgressBar silent;
  const auto filler = fetcher_of(job, 1, 1);
  const auto cache = std::make_shared<RowCache>(
      fill_cache({.ids = hot, .expected_hit_rate = 0.25}, *filler, silent).value()
  );
  EXPECT_TRUE(cache->rows().equal(shop.whole().node_types[1].features->rows().index_select(
      0, at::tensor({0, 41, 150, 299}, at::kLong)
  )));
  const int64_t filled = job.payload_bytes();
  EXPECT_EQ(filled, filler->counts().remote * 20);

  const auto fetcher = fetcher_of(job, 1, 1, cache);
  const at::Tensor ids = all_mixed(Shop::kItems);
  EXPECT_TRUE(fetcher->submit(ids).get().value().equal(
      shop.whole().node_types[1].features->rows().index_select(0, ids)
  ));
  const data::IdRange own = job.part(1)->own(1);
  int64_t remote = 0;
  int64_t hits = 0;
  for (int64_t i = 0; i < ids.numel(); ++i) {
    const auto id = ids[i].item<int64_t>();
    if (own.contains(id)) continue;
    ++remote;
    hits += hot.eq(id).any().item<bool>() ? 1 : 0;
  }
  ASSERT_GT(hits, 0);
  EXPECT_EQ(fetcher->counts().hits, hits);
  EXPECT_EQ(fetcher->counts().remote, remote - hits);
  EXPECT_EQ(job.payload_bytes() - filled, (remote - hits) * 20);
  EXPECT_EQ(fetcher->expected_hit_rate(), 0.25);
}

TEST(RowFetcher, NamesAPeerThatIsLostOrAnswersWrongly) {
  const Shop shop(2);
  const Job job(shop, no_sampling(), /*extracted=*/false);
  const auto fetcher = fetcher_of(job, 0, 0);
  const at::Tensor ids = all_mixed(Shop::kUsers);
  job.peer(1).spoil([](std::vector<std::byte>& bytes) { bytes.pop_back(); });
  const auto cut = fetcher->submit(ids).get();
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().kind, ErrorKind::Data);
  EXPECT_EQ(cut.error().message.substr(0, 28), "node 1: rows: expected 12460")
      << cut.error().message;
  job.peer(1).hold();
  auto rows = fetcher->submit(ids);
  job.peer(1).wait_for_held(1);
  job.peer(1).lose();
  EXPECT_EQ(rows.get().error(), (Error{ErrorKind::PeerLost, "node 1: closed the connection"}));
  EXPECT_EQ(fetcher->submit(at::tensor({Shop::kUsers})).get().error().kind, ErrorKind::Data);
}

TEST(RowCache, KeepsTheHottestRowsOrThoseThatMostListsName) {
  const graph::HotRowsData hot{
      .ids = at::tensor({9, 4, 7}, at::kLong),
      .hotness = at::tensor({3.0, 2.0, 1.0}, at::kDouble),
      .local_reads = 5,
      .remote_reads = 8
  };
  EXPECT_TRUE(hottest(hot, 2).ids.equal(at::tensor({9, 4}, at::kLong)));
  EXPECT_DOUBLE_EQ(*hottest(hot, 2).expected_hit_rate, 0.625);
  EXPECT_EQ(hottest(hot, 100).ids.numel(), 3);
  const std::vector<double> reads{0.5, 2, 0, 1, 4, 1};
  const graph::HotRowsData recomputed = hot_rows(reads, {.begin = 4, .end = 5}, 3);
  EXPECT_TRUE(recomputed.ids.equal(at::tensor({1, 3, 5}, at::kLong)));
  EXPECT_DOUBLE_EQ(recomputed.local_reads, 4);
  EXPECT_DOUBLE_EQ(recomputed.remote_reads, 4.5);
  EXPECT_DOUBLE_EQ(*hottest(recomputed, 2).expected_hit_rate, 3 / 4.5);

  for (const bool extracted : {false, true}) {
    const Shop shop(3);
    const Job job(shop, no_sampling(), extracted);
    const Part& part = *job.part(1);
    const CachedIds named = most_named(part, {0, 1, 1}, {1, 0, 1}, 1, 40);
    // Counted by hand: entries of the lists that part 1 owns.
    std::vector<int64_t> counts(Shop::kItems);
    for (const size_t type : {1, 2}) {
      const graph::EdgeTypeData& edges = shop.whole().edge_types[type];
      const data::IdRange own = part.own(edges.destination_index);
      const auto begin = edges.graph.indptr()[own.begin].item<int64_t>();
      const auto end = edges.graph.indptr()[own.end].item<int64_t>();
      for (int64_t edge = begin; edge < end; ++edge)
        ++counts[static_cast<size_t>(edges.graph.indices()[edge].item<int64_t>())];
    }
    ASSERT_EQ(named.ids.numel(), 40);
    const data::IdRange own = part.own(1);
    int64_t least = counts[static_cast<size_t>(named.ids[0].item<int64_t>())];
    for (int64_t i = 0; i < 40; ++i) {
      const auto id = named.ids[i].item<int64_t>();
      EXPECT_FALSE(own.contains(id));
      EXPECT_LE(counts[static_cast<size_t>(id)], least);
      least = counts[static_cast<size_t>(id)];
    }
    int64_t more = 0;
    for (int64_t id = 0; id < Shop::kItems; ++id)
      more += !own.contains(id) && counts[static_cast<size_t>(id)] > least ? 1 : 0;
    EXPECT_LE(more, 40);
    EXPECT_EQ(
        most_named(part, {0, 1, 1}, {1, 0, 1}, 1, Shop::kItems).ids.numel(),
        std::count_if(
            counts.begin(),
            counts.end(),
            [&](const int64_t& count) { return count > 0 && !own.contains(&count - counts.data()); }
        )
    );
  }
}

}  // namespace
}  // namespace gnn::shards
