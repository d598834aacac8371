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

/// Where an agent shows its ranks' lines and numbers, besides its HTTP pages.
struct AgentOutput {
  /// Called for each line that a rank writes.
  std::function<void(int64_t rank, RankStream stream, std::string_view line)> on_line;
  /// Called with the training's numbers a few times a second while they change; may be empty.
  std::function<void(const JobNumbers& numbers)> on_numbers;
};

/// Runs this node's part of a job to its end: rendezvous, ranks, restarts in place, final barrier.
/// Reaps every child of the process, as PID 1 must. Writes the final result and returns the
/// contract's exit code.
/// Threads: call it from the main thread before any other thread exists.
[[nodiscard]] int run_agent(
    const AgentOptions& options, StoreConnector connect, const AgentOutput& output
);

}  // namespace gnn::agent
