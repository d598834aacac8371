#include "common/contract.h"
#include "common/log.h"
#include "worker/agent/agent.h"
#include "worker/agent/result.h"
#include "worker/app/command.h"
#include "worker/app/store_connector.h"
#include "worker/distributed/comm/rendezvous.h"

#include <CLI/CLI.hpp>

#include <string>
#include <unistd.h>

namespace gnn::app {
namespace {

// The container's log: every line with its rank, in one write, so that ranks' lines don't mix.
void write_line(int64_t rank, agent::RankStream stream, std::string_view line) {
  const std::string text = "rank " + std::to_string(rank) + " | " + std::string(line) + "\n";
  const int fd = stream == agent::RankStream::Error ? STDERR_FILENO : STDOUT_FILENO;
  [[maybe_unused]] const auto written = ::write(fd, text.data(), text.size());
}

int run_pod() {
  const auto environment = comm::process_environment();
  auto options = agent::parse_agent_options(environment, {"/proc/self/exe", "rank"});
  if (!options) {
    log_error(options.error().message);
    agent::AgentOptions unknown;
    unknown.termination_log =
        environment(contract::kEnvTerminationLog).value_or(std::string(contract::kTerminationLog));
    const int exit_code = contract::exit_code_for(options.error().kind);
    const agent::NodeResult result{.exit_code = exit_code, .message = options.error().message};
    if (auto status = agent::write_result(unknown, result); !status)
      log_warning("no result written", {{"why", status.error().message}});
    return exit_code;
  }
  const agent::AgentOutput output{.on_line = write_line, .on_numbers = {}};
  return agent::run_agent(*options, make_tcp_connector(*options, -1), output);
}

}  // namespace

void add_agent_command(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand(
      "agent", "Runs one node of a job in a pod: reads the environment of docs/worker-contract.md"
  );
  command->callback([&action] { action = run_pod; });
}

}  // namespace gnn::app
