#include "common/clock.h"
#include "common/contract.h"
#include "common/log.h"
#include "worker/agent/agent.h"
#include "worker/agent/final_result.h"
#include "worker/agent/line_writer.h"
#include "worker/app/command.h"
#include "worker/app/store_connector.h"
#include "worker/rendezvous/rendezvous.h"

#include <CLI/CLI.hpp>

#include <string>
#include <unistd.h>

namespace gnn::app {
namespace {

int run_pod() {
  const auto environment = rendezvous::process_environment();
  auto options = agent::parse_agent_options(environment, {"/proc/self/exe", "rank"});
  if (!options) {
    log_error(options.error().message);
    agent::AgentOptions unknown;
    unknown.termination_log =
        environment(contract::kEnvTerminationLog).value_or(std::string(contract::kTerminationLog));
    const int exit_code = contract::exit_code_for(options.error().kind);
    const agent::NodeResult result{.exit_code = exit_code, .message = options.error().message};
    if (auto status = agent::write_result(unknown, result); !status)
      log_warning("cannot write the final result", {{"why", status.error().message}});
    return exit_code;
  }
  // To the container's log. Whoever reads it must not stop the agent.
  SystemClock clock;
  agent::LineWriter out({.fd = STDOUT_FILENO}, clock);
  agent::LineWriter err({.fd = STDERR_FILENO}, clock);
  const ScopedLogOutput log_output([&err](std::string_view line) { err.write(line); });
  const auto write_line = [&](int64_t rank, agent::RankStream stream, std::string_view line) {
    auto& writer = stream == agent::RankStream::Error ? err : out;
    writer.write("rank " + std::to_string(rank) + " | " + std::string(line));
  };
  const agent::AgentOutput output{.on_line = write_line, .on_numbers = {}};
  return agent::run_agent(*options, make_tcp_connector(*options, -1), output);
}

}  // namespace

void add_agent_command(CLI::App& root, Subcommand& chosen) {
  auto* command = root.add_subcommand(
      "agent", "Run one node of a job in a pod, as the environment says (docs/worker-contract.md)"
  );
  command->callback([&chosen] { chosen = run_pod; });
}

}  // namespace gnn::app
