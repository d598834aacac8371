#include "worker/shards/remote_sampler.h"

#include "tests/worker/shards/parts.h"
#include "worker/loader/node_loader.h"
#include "worker/rpc/server.h"
#include "worker/shards/rpc_peer.h"
#include "worker/shards/shards.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::shards {
namespace {

using sampling::SampledSubgraph;
using sampling::SamplingRule;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void expect_same_tensor(const at::Tensor& a, const at::Tensor& b) {
  ASSERT_EQ(a.defined(), b.defined());
  EXPECT_TRUE(!a.defined() || a.equal(b));
}

void expect_same_sample(const SampledSubgraph& a, const SampledSubgraph& b) {
  EXPECT_EQ(a.num_seeds, b.num_seeds);
  EXPECT_EQ(a.nodes_per_hop, b.nodes_per_hop);
  EXPECT_EQ(a.edges_per_hop, b.edges_per_hop);
  ASSERT_EQ(a.node_ids.size(), b.node_ids.size());
  for (size_t type = 0; type < a.node_ids.size(); ++type)
    expect_same_tensor(a.node_ids[type], b.node_ids[type]);
  ASSERT_EQ(a.blocks.size(), b.blocks.size());
  for (size_t layer = 0; layer < a.blocks.size(); ++layer) {
    for (size_t type = 0; type < a.blocks[layer].size(); ++type) {
      const graph::Block& one = a.blocks[layer][type];
      const graph::Block& other = b.blocks[layer][type];
      EXPECT_EQ(one.num_sources, other.num_sources);
      EXPECT_EQ(one.num_destinations, other.num_destinations);
      expect_same_tensor(one.indptr, other.indptr);
      expect_same_tensor(one.indices, other.indices);
      expect_same_tensor(one.edge_ids, other.edge_ids);
    }
  }
}

ShopSampling sampling_of(std::vector<int64_t> fanout) {
  ShopSampling sampling;
  sampling.options.fanout = std::move(fanout);
  return sampling;
}

sampling::SampleRequest request_of(uint64_t batch) {
  // Some seeds twice, of both types.
  return {
      .seeds =
          {at::arange(static_cast<int64_t>(batch), Shop::kUsers, 37, at::kLong) % 600,
           at::tensor({5, 299, 0, 5, 17}, at::kLong)},
      .position = {.seed = 7, .epoch = 2, .batch = batch}
  };
}

// Each node of the job draws what one process draws that has the whole graph.
void expect_local_bits(
    const ShopSampling& sampling,
    const sampling::SampleRequest& request,
    bool extracted,
    int64_t most_reply_bytes = kMostReplyBytes
) {
  for (int64_t parts = 1; parts <= 4; ++parts) {
    const Shop shop(parts);
    const Job job(shop, sampling, extracted, most_reply_bytes);
    const SampledSubgraph expected = local_sampler(shop.whole(), sampling)
                                         .sample(request.seeds, request.position, request.excluded)
                                         .value();
    for (int64_t part = 0; part < parts; ++part) {
      SCOPED_TRACE(std::to_string(parts) + " parts, part " + std::to_string(part));
      const auto sample = job.sampler(part)->submit(request).get();
      ASSERT_TRUE(sample) << sample.error().message;
      expect_same_sample(*sample, expected);
    }
  }
}

TEST(RemoteSampler, DrawsTheBitsOfOneProcessByBothRulesAndAllFanoutsAndHidesEdges) {
  for (const SamplingRule rule : {SamplingRule::NewNodes, SamplingRule::AllSeen}) {
    for (const bool replace : {false, true}) {
      ShopSampling sampling = sampling_of({4, 40, 2});
      sampling.options.rule = rule;
      sampling.options.replace = replace;
      sampling.options.with_edge_ids = replace;
      expect_local_bits(sampling, request_of(1), /*extracted=*/rule == SamplingRule::AllSeen);
    }
  }

  // Whole lists may be longer than a reply: the owner answers to some ids, and is asked again.
  ShopSampling sampling = sampling_of({-1, 3, 0});
  sampling.options.with_edge_ids = true;
  sampling.fanouts = {{}, {2, -1, 5}, {0, 70, 1}};
  expect_local_bits(sampling, request_of(3), /*extracted=*/true);
  expect_local_bits(sampling, request_of(2), /*extracted=*/false, /*most_reply_bytes=*/300);

  // Edges that are not visible yet, or excluded, are hidden from all nodes alike.
  ShopSampling hiding = sampling_of({8, 8});
  hiding.with_ends = true;
  hiding.options.with_edge_ids = true;
  sampling::SampleRequest request = request_of(5);
  // What the seeds draw without the exclusion, so that it has something to leave out.
  const Shop shop(1);
  const SampledSubgraph drawn =
      local_sampler(shop.whole(), hiding).sample(request.seeds, request.position).value();
  const graph::Block& block = drawn.blocks.back()[1];
  std::vector<int64_t> sources;
  std::vector<int64_t> destinations;
  const auto* const indptr = block.indptr.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    for (int64_t edge = indptr[row]; edge < indptr[row + 1]; edge += 3) {
      sources.push_back(drawn.node_ids[1][block.indices[edge].item<int64_t>()].item<int64_t>());
      destinations.push_back(drawn.node_ids[0][row].item<int64_t>());
    }
  }
  ASSERT_FALSE(sources.empty());
  request.excluded.push_back(
      {.relation = 1, .sources = at::tensor(sources), .destinations = at::tensor(destinations)}
  );
  expect_local_bits(hiding, request, /*extracted=*/false);
}

TEST(RemoteSampler, NamesAPeerThatIsLostOrAnswersWrongly) {
  const Shop shop(2);
  const Job job(shop, sampling_of({4, 4}), /*extracted=*/false);
  using Spoil = std::function<void(std::vector<std::byte>&)>;
  // Before memory is taken for what is not there.
  const std::string too_many = "node 1: hop: message too short for ";
  const std::vector<std::pair<Spoil, std::string>> faults{
      {[](auto& bytes) { bytes.resize(bytes.size() - 1); }, too_many},
      {[](auto& bytes) { bytes.push_back({}); }, "message too long by 1 bytes"},
      {[](auto& bytes) { bytes.clear(); }, "message too short: expected 1 elements of 8 bytes"},
      {[](auto& bytes) { bytes[0] = std::byte{0}; }, "an answer to at least one id"},
      {[](auto& bytes) { bytes[7] = std::byte{0x7F}; }, "an answer to at least one id"},
      {[](auto& bytes) { bytes[11] = std::byte{0xFF}; }, too_many},
      {[](auto& bytes) { std::fill(bytes.begin() + 8, bytes.end(), std::byte{0xFF}); }, too_many},
      {[](auto& bytes) { bytes[bytes.size() - 1] = std::byte{0xFF}; }, "of a list: expected one in"}
  };
  for (const auto& [spoil, reason] : faults) {
    job.peer(1).spoil(spoil);
    const auto sample = job.sampler(0)->submit(request_of(1)).get();
    ASSERT_FALSE(sample) << reason;
    EXPECT_EQ(sample.error().kind, ErrorKind::Data) << reason;
    EXPECT_THAT(sample.error().message, AllOf(StartsWith("node 1: hop: "), HasSubstr(reason)));
  }

  // The first of two that are lost in the middle of a hop is named, once.
  const Shop three(3);
  const Job losing(three, sampling_of({4, 4}), /*extracted=*/false);
  const auto sampler = losing.sampler(0);
  for (const int64_t part : {1, 2}) losing.peer(part).hold();
  auto sample = sampler->submit(request_of(1));
  for (const int64_t part : {1, 2}) losing.peer(part).wait_for_held(1);
  for (const int64_t part : {1, 2}) losing.peer(part).lose();
  EXPECT_EQ(sample.get().error(), (Error{ErrorKind::PeerLost, "node 1: closed the connection"}));
  EXPECT_EQ(sampler->submit(request_of(2)).get().error().kind, ErrorKind::PeerLost);
}

// One node of a job that trains on users, whose features and lists lie apart.
class PartLoader {
 public:
  PartLoader(int64_t parts, bool over_connections)
      : shop_(parts), job_(shop_, shop_sampling(), /*extracted=*/false) {
    ShardsOptions options;
    options.cache = {.policy = CachePolicy::Degree, .rows = 0.1};
    shards_ = Shards::create(shop_.whole(), options, {job_.spec(0)}).value();
    SilentProgressBar silent;
    EXPECT_TRUE(shards_->connect(over_connections ? connect() : job_.peers_of(0), silent));
  }
  ~PartLoader() {
    for (const auto& connection : connections_) connection->close();
  }
  PartLoader(const PartLoader&) = delete;
  PartLoader& operator=(const PartLoader&) = delete;

  static ShopSampling shop_sampling() { return sampling_of({5, 3}); }

  [[nodiscard]] std::unique_ptr<loader::NodeLoader> local() const {
    loader::NodeLoaderOptions options;
    options.num_threads = 0;
    return loader_of(
        options,
        std::make_shared<sampling::LocalSampler>(local_sampler(shop_.whole(), shop_sampling())),
        std::make_shared<loader::LocalFeatureFetcher>(
            loader::LocalFeatureFetcher::create(shop_.whole().node_types[0].features->rows())
                .value()
        )
    );
  }
  [[nodiscard]] std::unique_ptr<loader::NodeLoader> remote(const loader::NodeLoaderOptions& options
  ) const {
    return loader_of(options, shards_->sampler(0).value(), shards_->features(0));
  }
  [[nodiscard]] const Job& job() const { return job_; }
  [[nodiscard]] const Shards& shards() const { return *shards_; }

 private:
  // Its seeds are of the first type: a sampler that takes them as such.
  class UserSampler final : public sampling::Sampler {
   public:
    explicit UserSampler(std::shared_ptr<sampling::Sampler> typed) : typed_(std::move(typed)) {}
    void start(sampling::SampleRequest request, const Executor& executor, Done done) override {
      request.seeds.emplace_back();
      typed_->start(std::move(request), executor, std::move(done));
    }

   private:
    const std::shared_ptr<sampling::Sampler> typed_;
  };

  static std::unique_ptr<loader::NodeLoader> loader_of(
      loader::NodeLoaderOptions options,
      std::shared_ptr<sampling::Sampler> sampler,
      std::shared_ptr<loader::FeatureFetcher> features
  ) {
    options.items.batch_size = 32;
    options.items.shuffle = true;
    options.items.seed = 5;
    return loader::NodeLoader::create(
               options,
               std::make_shared<UserSampler>(std::move(sampler)),
               at::arange(0, Shop::kUsers, 2, at::kLong),
               std::move(features),
               nullptr
    )
        .value();
  }

  // Peers at the other end of connections of this machine.
  Peers connect() {
    const rpc::Key key = rpc::Key::draw().value();
    const auto loop = std::make_shared<rpc::EventLoop>();
    Peers peers{nullptr};
    for (int64_t node = 1; node < shop_.whole().partitions->book.parts; ++node) {
      rpc::ServerOptions serving;
      serving.address = {.host = "127.0.0.1", .port = 0};
      serving.identity = {.job_uid = "shop", .node = node};
      servers_.push_back(
          rpc::Server::start(loop, serving, key, handler_of(job_.shared_service(node))).value()
      );
      rpc::ClientOptions asking;
      asking.address = "127.0.0.1:" + std::to_string(servers_.back()->port());
      asking.node = node;
      asking.identity = {.job_uid = "shop"};
      connections_.push_back(RpcPeer::connect(loop, asking, key).value());
      peers.push_back(connections_.back());
    }
    return peers;
  }

  const Shop shop_;
  const Job job_;
  std::vector<std::unique_ptr<rpc::Server>> servers_;
  std::vector<std::shared_ptr<RpcPeer>> connections_;
  std::unique_ptr<Shards> shards_;
};

TEST(RemoteSampler, FeedsALoaderWithTheSameBatchesByAnyThreadsAndLeavesItsRequestsBehind) {
  const PartLoader loaders(3, /*over_connections=*/true);
  const auto local = loaders.local();
  for (const auto& [threads, concurrency] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {1, 4}, {2, 3}}) {
    loader::NodeLoaderOptions options;
    options.num_threads = threads;
    options.concurrency = concurrency;
    const auto remote = loaders.remote(options);
    ASSERT_TRUE(local->start_epoch(1));
    ASSERT_TRUE(remote->start_epoch(1));
    for (int64_t batch = 0; batch < local->num_batches(); ++batch) {
      const auto expected = local->next().value();
      const auto found = remote->next();
      ASSERT_TRUE(found) << found.error().message;
      EXPECT_TRUE(found->value().seeds.equal(expected->seeds));
      EXPECT_TRUE(found->value().x.equal(expected->x));
      expect_same_sample(found->value().subgraph, expected->subgraph);
    }
    EXPECT_FALSE(remote->next().value().has_value());
  }
  EXPECT_EQ(loaders.shards().cache_bytes(), (Shop::kUsers + Shop::kItems) / 10 * 20);
  const RowCounts counts = loaders.shards().counts();
  EXPECT_GT(counts.hits, 0);
  EXPECT_EQ(counts.remote_bytes, counts.remote * 20);
  EXPECT_TRUE(loaders.shards()
                  .labels(1)
                  ->submit(at::tensor({299, 3}, at::kLong))
                  .get()
                  .value()
                  .equal(at::tensor({897, 9}, at::kLong)));

  // Requests that are under way at the end of an epoch are left behind.
  const PartLoader held(2, /*over_connections=*/false);
  loader::NodeLoaderOptions options;
  options.num_threads = 2;
  options.concurrency = 2;
  held.job().peer(1).hold();
  {
    const auto loader = held.remote(options);
    ASSERT_TRUE(loader->start_epoch(0));
    held.job().peer(1).wait_for_held(4);
    loader->stop();
    EXPECT_EQ(loader->next().error().kind, ErrorKind::Cancelled);
  }
  held.job().peer(1).release();  // replies to a loader that is gone
}

}  // namespace
}  // namespace gnn::shards
