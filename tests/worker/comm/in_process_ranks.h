#pragma once

#include "worker/comm/communicator.h"
#include "worker/comm/process_groups.h"
#include "worker/comm/rank_groups.h"
#include "worker/comm/tcp_store.h"

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::comm {

/// Runs `body` on `world_size` threads, each a rank of one group: of Gloo on the loopback device, or
/// with `use_cuda` of NCCL on a GPU each. What a rank throws fails the test.
inline void run_ranks_on(
    bool use_cuda,
    int64_t world_size,
    const std::function<void(std::shared_ptr<Communicator>)>& body,
    Communicator::Timeout timeout = std::chrono::seconds(30)
) {
  const auto store = in_process_c10d_store();
  std::vector<std::thread> threads;
  std::vector<std::string> errors(static_cast<size_t>(world_size));
  for (int64_t rank = 0; rank < world_size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        auto group = make_communicator(
            Backend::Auto,
            device_of_rank(use_cuda, rank),
            *store,
            rank,
            world_size,
            {.timeout = timeout, .activity = std::make_shared<progress::CollectiveActivity>()}
        );
        if (!group) throw std::runtime_error(group.error().message);
        body(*group);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  for (size_t rank = 0; rank < errors.size(); ++rank)
    EXPECT_EQ(errors[rank], "") << "on rank " << rank;
}

/// On the CPU.
inline void run_ranks(
    int64_t world_size,
    const std::function<void(std::shared_ptr<Communicator>)>& body,
    Communicator::Timeout timeout = std::chrono::seconds(30)
) {
  run_ranks_on(false, world_size, body, timeout);
}

/// Rank 0's activity, for the other ranks.
class ActivityOfRank0 {
 public:
  void show(std::shared_ptr<progress::CollectiveActivity> activity) {
    promise_.set_value(std::move(activity));
  }
  /// Returns once rank 0 counts as waiting; false after ten seconds without that.
  [[nodiscard]] bool wait_until_it_waits() {
    const auto activity = shown_.get();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!activity->waiting()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  std::promise<std::shared_ptr<progress::CollectiveActivity>> promise_;
  std::shared_future<std::shared_ptr<progress::CollectiveActivity>> shown_{promise_.get_future()};
};

/// As run_ranks(), with the groups of ranks on `nodes` nodes of `processes` each.
inline void run_ranks_of_nodes(
    int64_t nodes, int64_t processes, const std::function<void(const RankGroups&)>& body
) {
  const auto store = in_process_c10d_store();
  run_ranks(nodes * processes, [&](const std::shared_ptr<Communicator>& all) {
    const auto group = [&](const std::string& name, int64_t rank, int64_t size) {
      CommunicatorOptions options{.timeout = std::chrono::seconds(30), .name = name};
      auto made =
          make_communicator(Backend::Gloo, c10::Device(c10::kCPU), *store, rank, size, options);
      if (!made) throw std::runtime_error(made.error().message);
      return *made;
    };
    const int64_t node = all->rank() / processes;
    const int64_t place = all->rank() % processes;
    body({
        all,
        group("node" + std::to_string(node), place, processes),
        group("peers" + std::to_string(place), node, nodes),
    });
  });
}

/// The value, or an exception that fails the test.
template <class T>
T require(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}
inline void require(const Status& status) {
  if (!status) throw std::runtime_error(status.error().message);
}

/// Whether the tensors have the same bits on all ranks. Collective.
inline bool replicas_agree(const std::vector<at::Tensor>& tensors, Communicator& communicator) {
  std::string mine;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor bytes = tensor.detach().contiguous();
    mine.append(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes());
  }
  for (const std::string& other : require(all_gather_bytes(communicator, mine))) {
    if (other != mine) return false;
  }
  return true;
}

}  // namespace gnn::comm
