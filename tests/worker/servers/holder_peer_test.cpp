#include "worker/servers/holder_peer.h"

#include "tests/worker/servers/servers.h"
#include "tests/worker/shards/parts.h"
#include "worker/shards/row_fetcher.h"

namespace gnn::servers {
namespace {

TEST(HolderPeer, DrawsHopsAndRowsOfAnotherPartFromWhicheverServerIsLeft) {
  const shards::Shop shop(2);
  shards::ShopSampling sampling;
  sampling.options.fanout = {4, 3};
  const shards::Job job(shop, sampling, /*extracted=*/true);
  const auto expected_sampler = shards::local_sampler(shop.whole(), sampling);
  const rpc::Key key = must(rpc::Key::draw());
  // Servers 1 and 3 hold part 1; this one is server 0.
  std::vector<std::unique_ptr<TestServer>> holders;
  const auto directory = std::make_shared<Directory>();
  std::vector<LiveServer> live;
  for (const int64_t server : {1, 3}) {
    holders.push_back(std::make_unique<TestServer>(
        ServerSetup{.server = server, .partitions = 2}, key, nullptr, job.shared_service(1)
    ));
    live.push_back(holders.back()->live());
  }
  // It is listed itself, and not asked.
  const TestServer itself({.server = 0, .partitions = 2}, key, nullptr);
  live.push_back(itself.live());
  directory->update(live);
  rpc::Identity own{.job_uid = kJob, .role = rpc::Role::Server, .node = 0};
  const ClientEnds ends(key, directory, 2, std::chrono::minutes(1), own);
  EXPECT_EQ(must(ends.holders->open()), "papers");
  for (const rpc::PeerStats& asked : ends.holders->peer_stats()) EXPECT_NE(asked.node, 0);
  const auto peer = std::make_shared<HolderPeer>(ends.holders, 1, 0);
  EXPECT_EQ(peer->name(), "the servers of part 1");

  const auto own_sampler = must(shards::PartSampler::create(job.part(0), job.spec(0)));
  const auto sampler = must(shards::RemoteSampler::create(0, own_sampler, {nullptr, peer}));
  const auto rows = must(shards::RowFetcher::create(
      {.method = shards::Method::Features, .index = 0, .node_type = 0},
      job.part(0),
      job.part(0)->features(0),
      {nullptr, peer}
  ));
  const at::Tensor ids = at::arange(0, shards::Shop::kUsers, 3, at::kLong);
  const auto expect_all = [&](uint64_t batch) {
    const sampling::SampleRequest request{
        .seeds = {at::arange(0, 600, 11, at::kLong), at::arange(0, 300, 7, at::kLong)},
        .position = {.seed = 1, .epoch = 2, .batch = batch}
    };
    expect_same(
        must(sampler->submit(request).get()),
        must(expected_sampler.sample(request.seeds, request.position))
    );
    expect_same(
        must(rows->submit(ids).get()),
        shop.whole().node_types[0].features->rows().index_select(0, ids)
    );
  };
  expect_all(0);
  holders[0]->kill();
  expect_all(1);

  // Without any, it waits for the replacement.
  holders[1]->kill();
  auto waiting = rows->submit(ids);
  wait_until([&] { return ends.holders->stats().under_way > 0; });
  const TestServer replacement(
      {.server = 1, .restart = 1, .partitions = 2}, key, nullptr, job.shared_service(1)
  );
  directory->update({replacement.live()});
  EXPECT_TRUE(waiting.get());
  expect_all(2);
}

}  // namespace
}  // namespace gnn::servers
