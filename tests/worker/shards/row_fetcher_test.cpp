#include "worker/shards/row_fetcher.h"

#include "tests/worker/loader/emulated_row_device.h"
#include "tests/worker/shards/parts.h"
#include "worker/shards/shards.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

namespace gnn::shards {
namespace {

ShopSampling no_sampling() {
  ShopSampling sampling;
  sampling.options.fanout = {1};
  return sampling;
}

std::shared_ptr<RowFetcher> fetcher_of(
    const Job& job, int64_t part, int64_t type, RowPlaces places = {}
) {
  return RowFetcher::create(
             {.index = static_cast<uint32_t>(type), .node_type = type},
             job.part(part),
             job.part(part)->features(type),
             job.peers_of(part),
             std::move(places)
  )
      .value();
}

at::Tensor all_mixed(int64_t nodes) {
  return at::cat(
      {at::arange(nodes, at::kLong) * 17 % nodes, at::arange(nodes - 1, -1, -3, at::kLong)}
  );
}

// More nodes than a message may name, without edges; but for the first, all are in the second part.
graph::Dataset many_nodes() {
  constexpr int64_t kManyNodes = kMostIds + 70'000;
  graph::Dataset dataset;
  dataset.name = "many";
  dataset.node_types = {
      {.name = "node",
       .num_nodes = kManyNodes,
       .features =
           graph::FeatureStore::create(at::arange(kManyNodes, at::kFloat).view({-1, 1})).value(),
       .labels = at::arange(kManyNodes, at::kLong)}
  };
  dataset.edge_types.push_back(
      {.source = "node",
       .relation = "to",
       .destination = "node",
       .graph = graph::CscGraph::create(
                    at::zeros({kManyNodes + 1}, at::kLong), at::empty({0}, at::kLong), kManyNodes
       )
                    .value(),
       .features = std::nullopt}
  );
  graph::PartitionData partitions;
  partitions.book.parts = 2;
  partitions.book.offsets = {{0, 1, kManyNodes}};
  partitions.original_ids.resize(1);
  partitions.hot.assign(1, std::vector<graph::HotRowsData>(2));
  dataset.partitions = std::move(partitions);
  return dataset;
}

TEST(RowFetcher, AsksAgainForWhatNoMessageHolds) {
  const graph::Dataset dataset = many_nodes();
  const int64_t nodes = dataset.target().num_nodes;
  const auto sampler_of = [&](int64_t index) {
    auto part = Part::create(dataset, {.part = index}).value();
    SamplerSpec spec{.options = {.fanout = {1}}, .relations = {{.lists = part->lists(0)}}};
    return PartSampler::create(std::move(part), std::move(spec)).value();
  };
  const auto own = sampler_of(0);
  const auto other = sampler_of(1);
  const auto peer = std::make_shared<InProcessPeer>(
      std::make_shared<Service>(
          Part::create(dataset, {.part = 1}).value(),
          std::vector<std::shared_ptr<PartSampler>>{other}
      ),
      1
  );
  const Peers peers{nullptr, peer};
  const auto part = Part::create(dataset, {.part = 0}).value();
  const auto fetcher = RowFetcher::create({}, part, part->features(0), peers).value();
  const at::Tensor all = at::arange(nodes - 1, -1, -1, at::kLong);
  EXPECT_TRUE(fetcher->submit(all).get().value().squeeze(1).equal(all.to(at::kFloat)));
  EXPECT_GT(peer->calls(), 1);
  SilentProgressBar silent;
  const at::Tensor kept = all.narrow(0, 0, 70'000).contiguous();
  const RowCache cache = fill_cache({.ids = kept}, *fetcher, silent).value();
  EXPECT_TRUE(
      std::get<0>(cache.rows().squeeze(1).sort(0, /*descending=*/true)).equal(kept.to(at::kFloat))
  );
  for (const int64_t id : {nodes - 1, nodes - 30'000, nodes - 70'000})
    EXPECT_EQ(cache.rows()[cache.find(id)].item<float>(), static_cast<float>(id));
  EXPECT_EQ(cache.find(nodes - 70'001), -1);
  const int64_t before = peer->calls();
  const auto sample =
      RemoteSampler::create(0, own, peers).value()->submit({.seeds = {all}, .position = {}}).get();
  ASSERT_TRUE(sample) << sample.error().message;
  EXPECT_TRUE(sample->node_ids[0].equal(all));
  EXPECT_GT(peer->calls(), before + 1);
  peer->close();
}

TEST(RowFetcher, GivesTheRowsOfOneProcessAndMovesNoByteMoreAndNoneThatItsCacheHolds) {
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

  // Nobody is asked for rows that are in the cache.
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

  const auto fetcher = fetcher_of(job, 1, 1, {.cache = cache});
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

// Own rows, some of them hot, cached ones, and those that others send.
TEST(RowFetcher, GivesADeviceTheHostsRowsAndCounts) {
  const Shop shop(3);
  const Job job(shop, no_sampling(), /*extracted=*/true);
  SilentProgressBar silent;
  const auto shards_with = [&](int64_t part, std::optional<RowDeviceOptions> device) {
    auto shards = Shards::create(
                      shop.extract(part),
                      {.part = {.part = part}, .cache = {.rows = 0.1}, .device = std::move(device)},
                      {job.spec(part)}
    )
                      .value();
    EXPECT_TRUE(shards->connect(job.peers_of(part), silent));
    return shards;
  };
  for (int64_t part = 0; part < 3; ++part) {
    for (const double hot : {0.0, 0.2, 1.0}) {
      for (const bool ids_lie_there : {false, true}) {
        const auto on_host = shards_with(part, std::nullopt);
        const auto device = std::make_shared<loader::EmulatedRowDevice>(ids_lie_there);
        const auto on_device = shards_with(part, RowDeviceOptions{.device = device, .rows = hot});
        for (const int64_t type : {0, 1}) {
          const auto& expected = shop.whole().node_types[static_cast<size_t>(type)];
          const at::Tensor none = at::empty({0}, at::kLong);
          for (const at::Tensor& ids : {all_mixed(expected.num_nodes), none}) {
            const at::Tensor rows = expected.features->rows().index_select(0, ids);
            EXPECT_TRUE(on_device->features(type)->submit(ids).get().value().equal(rows));
            EXPECT_TRUE(on_device->host_features(type)->submit(ids).get().value().equal(rows));
            EXPECT_TRUE(on_host->features(type)->submit(ids).get());
          }
          const RowCounts found = on_device->features(type)->counts();
          const RowCounts counts = on_host->features(type)->counts();
          EXPECT_EQ(found.local, counts.local);
          EXPECT_EQ(found.hits, counts.hits);
          EXPECT_EQ(found.remote, counts.remote);
          EXPECT_GT(found.hits, 0);
          const auto bad = on_device->features(type)->submit(at::tensor({3, -1}, at::kLong)).get();
          ASSERT_FALSE(bad);
          EXPECT_EQ(bad.error().kind, ErrorKind::Data);
        }
      }
    }
  }
}

TEST(RowFetcher, NamesAPeerThatIsLostOrAnswersWrongly) {
  const Shop shop(3);
  const Job job(shop, no_sampling(), /*extracted=*/false);
  const auto fetcher = fetcher_of(job, 0, 0);
  const at::Tensor ids = all_mixed(Shop::kUsers);
  job.peer(1).spoil([](std::vector<std::byte>& bytes) { bytes.pop_back(); });
  const auto cut = fetcher->submit(ids).get();
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().kind, ErrorKind::Data);
  EXPECT_EQ(cut.error().message.substr(0, 23), "node 1: rows: expected ") << cut.error().message;
  // The first of two that are lost, once.
  for (const int64_t part : {1, 2}) job.peer(part).hold();
  auto rows = fetcher->submit(ids);
  for (const int64_t part : {1, 2}) job.peer(part).wait_for_held(1);
  for (const int64_t part : {1, 2}) job.peer(part).lose();
  EXPECT_EQ(rows.get().error(), (Error{ErrorKind::PeerLost, "node 1: closed the connection"}));
  EXPECT_EQ(fetcher->submit(at::tensor({Shop::kUsers})).get().error().kind, ErrorKind::Data);
}

TEST(RowCache, CountsNamesUpToTheMostThatACountHolds) {
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> counts{0, 0, kMost - 1};
  const std::vector<int64_t> ids{2, 0, 2};
  count_names(std::span(ids), counts);
  const std::vector<int32_t> more{0, 2};
  count_names(std::span(more), counts);
  EXPECT_EQ(counts, (std::vector<uint32_t>{2, 0, kMost}));
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
  EXPECT_EQ(hottest(hot_rows(reads, {.begin = 0, .end = 6}, 3), 2).expected_hit_rate, 1)
      << "no remote row is read";

  for (const bool extracted : {false, true}) {
    const Shop shop(3);
    const Job job(shop, no_sampling(), extracted);
    for (int64_t index = 0; index < 3; ++index) {
      const graph::Dataset dataset = extracted ? shop.extract(index) : shop.whole();
      const auto shards =
          Shards::create(
              dataset, {.part = {.part = index}, .cache = {.rows = 0.01}}, {job.spec(index)}
          )
              .value();
      SilentProgressBar silent;
      ASSERT_TRUE(shards->connect(job.peers_of(index), silent));
      const at::Tensor& hottest_ids =
          dataset.partitions->hot[0][static_cast<size_t>(index)].ids.narrow(0, 0, 7);
      ASSERT_TRUE(shards->features(0)->submit(hottest_ids.contiguous()).get());
      EXPECT_EQ(shards->counts().hits, 7);
      EXPECT_EQ(shards->counts().remote, 0);
      EXPECT_TRUE(shards->labels(1)
                      ->submit(at::tensor({299, 3}, at::kLong))
                      .get()
                      .value()
                      .equal(at::tensor({897, 9}, at::kLong)));
    }
    const auto held =
        extracted ? job.part(1)
                  : Part::create(shop.whole(), {.part = 1, .topology = Held::Whole}).value();
    const Part& part = *held;
    const CachedIds named = most_named(part, {0, 1, 1}, {1, 0, 1}, 1, 40);
    const auto by_degree =
        Shards::create(
            extracted ? shop.extract(1) : shop.whole(),
            {.part = {.part = 1}, .cache = {.policy = CachePolicy::Degree, .rows = 40.5 / 300}},
            {job.spec(1)}
        )
            .value();
    SilentProgressBar silent;
    ASSERT_TRUE(by_degree->connect(job.peers_of(1), silent));
    ASSERT_TRUE(by_degree->features(1)->submit(named.ids).get());
    EXPECT_EQ(by_degree->counts().hits, 40);
    // Hotness of the job's own batches is used instead of the data set's: rows that this has coldest.
    const graph::Dataset dataset = extracted ? shop.extract(1) : shop.whole();
    const at::Tensor& users = dataset.partitions->hot[0][1].ids;
    const at::Tensor& items = dataset.partitions->hot[1][1].ids;
    const auto last_of = [](const at::Tensor& ids, int64_t count) {
      return ids.narrow(0, ids.numel() - count, count).contiguous();
    };
    const auto hotness_of = [](int64_t count) { return at::ones({count}, at::kDouble); };
    const auto by_own =
        Shards::create(
            dataset,
            {.part = {.part = 1},
             .cache =
                 {.rows = 0.01,
                  .hot =
                      {{.ids = last_of(users, 1), .hotness = hotness_of(1), .remote_reads = 2},
                       {.ids = last_of(items, 3), .hotness = hotness_of(3), .remote_reads = 4}}}},
            {job.spec(1)}
        )
            .value();
    ASSERT_TRUE(by_own->connect(job.peers_of(1), silent));
    ASSERT_TRUE(by_own->features(0)->submit(last_of(users, 1)).get());
    ASSERT_TRUE(by_own->features(1)->submit(last_of(items, 3)).get());
    EXPECT_EQ(by_own->counts().hits, 4);
    EXPECT_DOUBLE_EQ(*by_own->expected_hit_rate(), (0.5 * 1 + 0.75 * 3) / 4) << "by reads";
    // Of a type without hotness nothing is expected; that counts once it is read.
    const auto partly =
        Shards::create(
            dataset,
            {.part = {.part = 1},
             .cache =
                 {.rows = 0.01,
                  .hot =
                      {{.ids = last_of(users, 1), .hotness = hotness_of(1), .remote_reads = 2},
                       {.ids = last_of(items, 3), .hotness = {}}}}},
            {job.spec(1)}
        )
            .value();
    ASSERT_TRUE(partly->connect(job.peers_of(1), silent));
    EXPECT_FALSE(partly->expected_hit_rate()) << "nothing is read yet";
    ASSERT_TRUE(partly->features(0)->submit(last_of(users, 1)).get());
    EXPECT_EQ(partly->expected_hit_rate(), 0.5);
    ASSERT_TRUE(partly->features(1)->submit(last_of(items, 3)).get());
    EXPECT_FALSE(partly->expected_hit_rate());
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
