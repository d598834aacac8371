#pragma once

#include "common/guarded.h"
#include "tests/support/must.h"
#include "tests/worker/rpc/raw_peer.h"
#include "tests/worker/sampling/random_graph.h"
#include "worker/graph/csc_graph.h"
#include "worker/loader/feature_fetcher.h"
#include "worker/rpc/client.h"
#include "worker/rpc/server.h"
#include "worker/sampling/async_sampler.h"
#include "worker/sampling/neighbor.h"
#include "worker/servers/batch_maker.h"
#include "worker/servers/batch_service.h"
#include "worker/servers/directory.h"
#include "worker/servers/hello.h"
#include "worker/servers/holders.h"
#include "worker/servers/served_batches.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::servers {

using gnn::testing::must;
using loader::MiniBatch;

inline constexpr int64_t kNodes = 2000;
inline constexpr int64_t kBatchItems = 50;
inline constexpr int64_t kBatches = 12;
inline constexpr const char* kJob = "7c1d";
inline constexpr auto kPeerTimeout = std::chrono::seconds(1);

/// A small graph with features and labels, and what one process makes of it.
class World {
 public:
  World()
      : sampler_(std::make_shared<sampling::LocalSampler>(
            must(sampling::NeighborSampler::create(options(), make_graph()))
        )),
        features_(at::arange(kNodes * 30, at::kFloat).reshape({kNodes, 30}) / 7),
        labels_(at::arange(kNodes, at::kLong) % 7) {}

  [[nodiscard]] MiniBatch make(const BatchRequest& request) const {
    MiniBatch batch;
    batch.batch_index = request.index;
    batch.seeds = (at::arange(request.count, at::kLong) + request.first_position) *
                  (7 + 10 * request.epoch) % kNodes;
    batch.subgraph = must(sampler_
                              ->submit(
                                  {.seeds = {batch.seeds},
                                   .position =
                                       {.seed = 5,
                                        .epoch = static_cast<uint64_t>(request.epoch),
                                        .batch = static_cast<uint64_t>(request.first_position)}}
                              )
                              .get());
    batch.x = features_.index_select(0, batch.subgraph.node_ids.front());
    batch.y = labels_.index_select(0, batch.seeds);
    return batch;
  }

 private:
  static sampling::NeighborSamplerOptions options() {
    sampling::NeighborSamplerOptions options;
    options.fanout = {5, 3};
    options.with_edge_ids = true;
    return options;
  }
  static graph::CscGraph make_graph() {
    const sampling::RandomGraph edges(kNodes, kNodes, 8, 1);
    return must(graph::CscGraph::create(
        at::tensor(edges.indptr, at::kLong),
        at::tensor(edges.indices, at::kLong).to(at::kInt),
        kNodes
    ));
  }

  std::shared_ptr<sampling::Sampler> sampler_;
  at::Tensor features_;
  at::Tensor labels_;
};

/// Batch `index` of rank 0, which has them all.
inline BatchRequest request_of(int64_t epoch, int64_t index, int64_t partition = -1) {
  return {
      .epoch = epoch,
      .partition = partition,
      .first_position = index * kBatchItems,
      .count = kBatchItems,
      .rank = 0,
      .index = index
  };
}

/// Makes the world's batches, and does to requests what a test wants.
class WorldMaker final : public BatchMaker<MiniBatch> {
 public:
  using Before = std::function<Status(const BatchRequest&)>;
  explicit WorldMaker(std::shared_ptr<const World> world, Before before = nullptr)
      : world_(std::move(world)), before_(std::move(before)) {}

  void make(const BatchRequest& request, const Executor& executor, Done done) override {
    executor([this, request, done = std::move(done)] {
      if (before_) {
        if (const Status status = before_(request); !status)
          return done(tl::unexpected(status.error()));
      }
      done(world_->make(request));
    });
  }

 private:
  const std::shared_ptr<const World> world_;
  const Before before_;
};

/// One for all tests.
inline const std::shared_ptr<const World>& world() {
  static const auto world = std::make_shared<const World>();
  return world;
}

inline std::shared_ptr<WorldMaker> maker(WorldMaker::Before before = nullptr) {
  return std::make_shared<WorldMaker>(world(), std::move(before));
}

inline rpc::Identity client_identity(int64_t node = 0, int64_t attempt = 1, int64_t round = 0) {
  return {
      .job_uid = kJob, .role = rpc::Role::Client, .attempt = attempt, .round = round, .node = node
  };
}

struct ServerSetup {
  int64_t server = 0;
  int64_t restart = 0;
  int64_t partitions = 1;
  std::string description = "papers";
  int64_t max_bytes_in_flight = int64_t{64} << 20;
  int64_t num_threads = 2;
  std::string job = kJob;
  Duration peer_timeout = kPeerTimeout;
  std::function<void(Hello&)> lie{};  ///< changes what it says of itself
};

/// A sampling server in this process, with an event loop of its own.
class TestServer {
 public:
  TestServer(
      const ServerSetup& setup,
      const rpc::Key& key,
      const std::shared_ptr<BatchMaker<MiniBatch>>& maker,
      std::shared_ptr<const shards::Service> shards = nullptr
  )
      : setup_(setup),
        service_(must(BatchService::create(
            {.hello = hello_of(setup),
             .num_threads = setup.num_threads,
             .concurrency = 2,
             .max_bytes_in_flight = setup.max_bytes_in_flight}
        ))),
        server_(must(rpc::Server::start_late(
            std::make_shared<rpc::EventLoop>(),
            BatchService::with_bounds(
                {.address = {.host = "127.0.0.1", .port = 0},
                 .identity =
                     {.job_uid = setup.job, .role = rpc::Role::Server, .node = setup.server},
                 .peer_timeout = setup.peer_timeout}
            ),
            key,
            service_->handler(std::move(shards))
        ))),
        port_(server_->port()) {
    if (maker != nullptr) service_->set_maker(maker);
  }
  ~TestServer() { kill(); }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  /// All connections break, and nobody listens any more.
  void kill() { server_.reset(); }

  [[nodiscard]] LiveServer live() const {
    return {
        .server = setup_.server,
        .restart = setup_.restart,
        .address = "127.0.0.1:" + std::to_string(port_)
    };
  }
  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] int64_t num_clients() const { return server_->num_clients(); }
  [[nodiscard]] BatchService& service() const { return *service_; }
  [[nodiscard]] std::string name() const {
    return "server " + std::to_string(setup_.server) + " (" + live().address + ")";
  }

 private:
  static Hello hello_of(const ServerSetup& setup) {
    Hello hello{
        .server = setup.server,
        .restart = setup.restart,
        .partitions = setup.partitions,
        .part = setup.server % setup.partitions,
        .description = setup.description
    };
    if (setup.lie) setup.lie(hello);
    return hello;
  }

  const ServerSetup setup_;
  const std::shared_ptr<BatchService> service_;
  std::unique_ptr<rpc::Server> server_;
  const uint16_t port_;
};

/// A client's connections to servers.
struct ClientEnds {
  explicit ClientEnds(
      const rpc::Key& key,
      const std::shared_ptr<Directory>& directory,
      int64_t partitions = 1,
      Duration server_timeout = std::chrono::minutes(1),
      const rpc::Identity& identity = client_identity(),
      Duration answer_timeout = Duration::max()
  )
      : holders(must(Holders::create(
            std::make_shared<rpc::EventLoop>(),
            {.identity = identity,
             .partitions = partitions,
             .peer_timeout = kPeerTimeout,
             .server_timeout = server_timeout,
             .answer_timeout = answer_timeout},
            key,
            directory
        ))) {}
  ~ClientEnds() { holders->close(); }
  ClientEnds(const ClientEnds&) = delete;
  ClientEnds& operator=(const ClientEnds&) = delete;

  [[nodiscard]] std::unique_ptr<ServedBatches<MiniBatch>> batches(
      int64_t partition = -1, int64_t max_bytes_in_flight = int64_t{64} << 20
  ) const {
    return must(ServedBatches<MiniBatch>::create(
        {.num_batches = kBatches,
         .request_of = [partition](
                           int64_t epoch, int64_t index
                       ) { return request_of(epoch, index, partition); },
         .under_way = 3,
         .max_bytes_in_flight = max_bytes_in_flight},
        holders
    ));
  }

  const std::shared_ptr<Holders> holders;
};

inline void expect_same(const at::Tensor& found, const at::Tensor& expected) {
  ASSERT_EQ(found.defined(), expected.defined());
  if (!found.defined()) return;
  EXPECT_EQ(found.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(found.equal(expected));
}

inline void expect_same(
    const sampling::SampledSubgraph& found, const sampling::SampledSubgraph& expected
) {
  EXPECT_EQ(found.num_seeds, expected.num_seeds);
  EXPECT_EQ(found.nodes_per_hop, expected.nodes_per_hop);
  EXPECT_EQ(found.edges_per_hop, expected.edges_per_hop);
  ASSERT_EQ(found.node_ids.size(), expected.node_ids.size());
  for (size_t type = 0; type < found.node_ids.size(); ++type)
    expect_same(found.node_ids[type], expected.node_ids[type]);
  ASSERT_EQ(found.blocks.size(), expected.blocks.size());
  for (size_t layer = 0; layer < found.blocks.size(); ++layer) {
    ASSERT_EQ(found.blocks[layer].size(), expected.blocks[layer].size());
    for (size_t type = 0; type < found.blocks[layer].size(); ++type) {
      const graph::Block& one = found.blocks[layer][type];
      const graph::Block& other = expected.blocks[layer][type];
      EXPECT_EQ(one.num_sources, other.num_sources);
      EXPECT_EQ(one.num_destinations, other.num_destinations);
      expect_same(one.indptr, other.indptr);
      expect_same(one.indices, other.indices);
      expect_same(one.edge_ids, other.edge_ids);
    }
  }
}

inline void expect_same(const MiniBatch& found, const MiniBatch& expected) {
  EXPECT_EQ(found.batch_index, expected.batch_index);
  expect_same(found.seeds, expected.seeds);
  expect_same(found.x, expected.x);
  expect_same(found.y, expected.y);
  expect_same(found.subgraph, expected.subgraph);
}

/// The next batch is the world's batch `index`.
inline void expect_next(
    ServedBatches<MiniBatch>& batches, const World& world, int64_t epoch, int64_t index
) {
  SCOPED_TRACE("batch " + std::to_string(index));
  const auto batch = must(batches.next());
  ASSERT_TRUE(batch);
  expect_same(*batch, world.make(request_of(epoch, index)));
}

/// Waits until `ready()`, whose answer changes by what other threads do.
inline void wait_until(const std::function<bool()>& ready) {
  while (!ready()) std::this_thread::yield();
}

}  // namespace gnn::servers
