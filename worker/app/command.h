#pragma once

#include <functional>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace gnn::app {

/// What a subcommand does once the command line is parsed. Returns the contract's exit code.
using Subcommand = std::function<int()>;

// Each function adds one subcommand to `root`. If the user chooses it, CLI11's callback only sets
// `chosen`, which main() runs after parsing: no work happens inside the parser.

/// Trains a manifest on this machine.
void add_run_command(CLI::App& root, Subcommand& chosen);
/// Runs one rank; an agent starts it.
void add_rank_command(CLI::App& root, Subcommand& chosen);
/// Runs a pod's agent.
void add_agent_command(CLI::App& root, Subcommand& chosen);
/// Runs a sampling server's pod.
void add_server_command(CLI::App& root, Subcommand& chosen);
/// Makes a job's data in a pod of its own.
void add_prepare_command(CLI::App& root, Subcommand& chosen);
/// Imports, generates, inspects or verifies data sets.
void add_data_command(CLI::App& root, Subcommand& chosen);
/// Checks or exports trained models.
void add_model_command(CLI::App& root, Subcommand& chosen);
/// Writes a page about a run.
void add_report_command(CLI::App& root, Subcommand& chosen);

}  // namespace gnn::app
