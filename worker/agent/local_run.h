#pragma once

#include "common/result.h"
#include "worker/agent/agent.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/rank_process.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gnn::agent {

/// A job on this machine alone: the agents of all its nodes as child processes, each with its
/// ranks.
struct LocalRun {
  std::string job = "local";
  int64_t nodes = 1;
  int64_t processes_per_node = 1;
  int64_t rounds_left = 0;
  std::chrono::milliseconds grace{120'000};
  /// Variables of the contract that the job sets, its time-outs; the process's own environment
  /// wins.
  Environment environment{};
  /// Program and arguments of a rank; program "/proc/self/exe" is this one.
  std::vector<std::string> rank_command{};
};

/// Makes the connector of one node's agent. `listening_socket`: for node 0, the bound socket that
/// the store takes over; -1 for others.
using ConnectorFactory =
    std::function<StoreConnector(const AgentOptions& options, int listening_socket)>;

/// Runs a job with no fixed ports; shows the ranks' lines with their node and rank, and one
/// progress bar when stderr is a terminal. The first SIGINT or SIGTERM makes the job checkpoint and
/// leave; a second one ends it at once. No process outlives the call, nor the end of this process.
/// Call it from the main thread before any other thread is made.
/// Returns the exit code of the contract.
[[nodiscard]] int run_local_job(const LocalRun& run, const ConnectorFactory& make_connector);

}  // namespace gnn::agent
