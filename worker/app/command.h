#pragma once

#include <functional>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace gnn::app {

/// What a subcommand does once the command line has been parsed; returns the exit code of the
/// contract.
using Action = std::function<int()>;

/// Each of these adds one subcommand (and its own ones) to `root`. When the user chose it, the
/// callback that CLI11 runs while parsing must only set `action`; main() runs it after parsing, so
/// that no work happens inside the parser.
void add_run_command(
    CLI::App& root, Action& action
);  ///< run_command.cpp: a manifest on this machine
void add_rank_command(
    CLI::App& root, Action& action
);  ///< rank_command.cpp: one rank, started by an agent
void add_agent_command(
    CLI::App& root, Action& action
);  ///< agent_command.cpp: a pod's first process
void add_data_command(
    CLI::App& root, Action& action
);  ///< data_command.cpp: import, generate, inspect, verify

}  // namespace gnn::app
