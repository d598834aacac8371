#include "worker/comm/process_groups.h"

#include "tests/worker/comm/in_process_ranks.h"
#include "worker/comm/tcp_store.h"
#include "worker/rendezvous/store.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::comm {
namespace {

rendezvous::Rendezvous place_of(int64_t rank, int64_t nodes, int64_t processes, uint16_t port) {
  return {
      .job = "job",
      .incarnation = {.job_uid = "uid", .attempt = 1, .round = 0},
      .rank = rank,
      .world_size = nodes * processes,
      .local_rank = rank % processes,
      .local_world_size = processes,
      .node_rank = rank / processes,
      .store_host = "127.0.0.1",
      .store_port = port,
  };
}

// Runs `body` on a thread for each rank of a job whose store this process hosts.
void run_job(
    int64_t nodes, int64_t processes, const std::function<void(const rendezvous::Rendezvous&)>& body
) {
  const auto store = TcpStore::host({.host = "127.0.0.1", .port = 0});
  ASSERT_TRUE(store) << store.error().message;
  const rendezvous::Incarnation incarnation{.job_uid = "uid", .attempt = 1, .round = 0};
  ASSERT_TRUE(rendezvous::announce_identity(**store, incarnation));
  ASSERT_TRUE((*store)->set(rendezvous::attempt_prefix(incarnation) + rendezvous::kRoundKey, "0"));
  std::vector<std::thread> threads;
  std::vector<std::string> errors(static_cast<size_t>(nodes * processes));
  for (int64_t rank = 0; rank < nodes * processes; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(place_of(rank, nodes, processes, (*store)->port()));
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t rank = 0; rank < errors.size(); ++rank) EXPECT_EQ(errors[rank], "") << rank;
}

TEST(LocalProcessGroup, HoldsTheRanksOfOneNodeForEveryShape) {
  const std::vector<std::pair<int64_t, int64_t>> shapes{{2, 2}, {3, 1}, {1, 3}, {2, 3}};
  for (const auto& [nodes, processes] : shapes) {
    run_job(nodes, processes, [&](const rendezvous::Rendezvous& place) {
      auto groups = require(ProcessGroups::create(place, Backend::Gloo, c10::Device(c10::kCPU)));
      require(groups.create_local_process_group(place.local_world_size));
      const auto& local = groups.get_local_process_group();
      EXPECT_EQ(local->rank(), place.local_rank);
      EXPECT_EQ(local->world_size(), place.local_world_size);
      const at::Tensor ranks = at::full({1}, place.rank, at::kLong);
      require(local->all_reduce(ranks, ReduceOp::Sum));
      int64_t expected = 0;
      for (int64_t i = 0; i < place.local_world_size; ++i)
        expected += place.node_rank * place.local_world_size + i;
      EXPECT_EQ(ranks.item<int64_t>(), expected);
      // And the world still holds all of them.
      const at::Tensor ones = at::ones({1}, at::kLong);
      require(groups.communicator()->all_reduce(ones, ReduceOp::Sum));
      EXPECT_EQ(ones.item<int64_t>(), place.world_size);
    });
  }
}

TEST(LocalProcessGroup, ComesWithTheGroupOfTheSamePlaceOnEveryNode) {
  const std::vector<std::pair<int64_t, int64_t>> shapes{{2, 2}, {3, 1}, {1, 3}, {2, 3}};
  for (const auto& [nodes, processes] : shapes) {
    run_job(nodes, processes, [&, count = nodes](const rendezvous::Rendezvous& place) {
      auto made = require(ProcessGroups::create(place, Backend::Gloo, c10::Device(c10::kCPU)));
      require(made.create_local_process_group(place.local_world_size));
      const RankGroups groups = made.groups();
      EXPECT_EQ(groups.all->rank(), place.rank);
      EXPECT_EQ(groups.node->rank(), place.local_rank);
      EXPECT_EQ(groups.peers->rank(), place.node_rank);
      EXPECT_EQ(groups.peers->world_size(), count);
      const at::Tensor places = at::full({1}, place.local_rank, at::kLong);
      require(groups.peers->all_reduce(places, ReduceOp::Sum));
      EXPECT_EQ(places.item<int64_t>(), count * place.local_rank);
    });
  }
}

TEST(LocalProcessGroup, RefusesASizeThatDoesNotDivideTheWorldSize) {
  run_job(2, 2, [](const rendezvous::Rendezvous& place) {
    auto groups = require(ProcessGroups::create(place, Backend::Gloo, c10::Device(c10::kCPU)));
    const Status status = groups.create_local_process_group(3);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::Configuration);
  });
}

}  // namespace
}  // namespace gnn::comm
