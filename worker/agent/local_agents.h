#pragma once

#include "common/result.h"
#include "worker/agent/agent.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/rank_process.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gnn::agent {

/// A job on this machine: the agents of all its nodes are child processes, each with its ranks, and so
/// are its sampling servers.
struct LocalJob {
  std::string job = "local";
  int64_t nodes = 1;
  int64_t processes_per_node = 1;
  /// GPUs that each rank has to itself: 0 or 1. Nodes get different ones.
  int64_t gpus_per_process = 0;
  int64_t rounds_left = 0;
  std::chrono::milliseconds grace{120'000};
  /// Variables of the contract that the job sets, such as time-outs. This process's environment
  /// takes precedence.
  Environment environment{};
  /// Variables of the ranks, beside those that agents set, and of servers.
  Environment rank_environment{};
  /// Program and arguments of a rank; the program "/proc/self/exe" is this one.
  std::vector<std::string> rank_command{};
  /// Sampling servers, and program and arguments of one.
  int64_t servers = 0;
  std::vector<std::string> server_command{};
};

/// CUDA_VISIBLE_DEVICES of the ranks of `node`, where each node has `gpus` of this machine's GPUs.
/// `visible`: the variable of this process; nullopt: all GPUs, numbered from 0. Fewer than `gpus`,
/// or none, are left for the last nodes where the list is too short.
[[nodiscard]] std::string visible_gpus_of_node(
    int64_t node, int64_t gpus, const std::optional<std::string>& visible
);

/// Makes the store connector of one node's agent. `listening_socket`: on node 0 the socket that
/// the store takes over; -1 on other nodes.
using ConnectorFactory =
    std::function<StoreConnector(const AgentOptions& options, int listening_socket)>;

/// Runs the job on free ports and returns the contract's exit code. Shows the ranks' lines with
/// node and rank, and a progress bar on a terminal. At the first SIGINT or SIGTERM the job writes a
/// checkpoint and stops; a second one kills it. A server that ends before its job is started again,
/// unless it ends with Configuration or Data: then the job ends, with that code. No agent, rank or
/// server outlives the call or this process.
/// Threads: call it from the main thread before any other thread exists.
[[nodiscard]] int run_agents_locally(const LocalJob& job, const ConnectorFactory& make_connector);

}  // namespace gnn::agent
