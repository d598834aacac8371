#pragma once

#include "worker/agent/agent_options.h"
#include "worker/agent/node_progress.h"
#include "worker/agent/rank_process.h"
#include "worker/agent/store_link.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace gnn::agent {

/// Where an agent shows things beside its HTTP pages.
struct AgentOutput {
  /// A line that a rank wrote.
  std::function<void(int64_t rank, RankStream stream, std::string_view line)> on_line;
  /// The training's numbers, a few times a second while they change; may be empty.
  std::function<void(const JobNumbers& numbers)> on_numbers;
};

/// Runs this node's part of a job to its end: rendezvous, ranks, restarts, leaving. Reaps every
/// child of the process, as PID 1 must. Call it from the main thread before any other thread is
/// made. Returns the exit code of the contract; the result is written by then.
[[nodiscard]] int run_agent(
    const AgentOptions& options, StoreConnector connect, const AgentOutput& output
);

}  // namespace gnn::agent
