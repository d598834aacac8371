#include "worker/app/job_options.h"

#include "common/contract.h"

#include <CLI/CLI.hpp>

namespace gnn::app {

void add_job_options(CLI::App& command, JobOptions& options) {
  command
      .add_option(
          "--set",
          options.overrides,
          "Set a field of the spec, as in --set training.epochs=3; may be repeated"
      )
      ->take_all();
  add_console_options(command, options.console);
}

void add_process_options(CLI::App& command, JobOptions& options) {
  options.config = contract::kConfigFile;
  command.add_option("--config", options.config, "Manifest of the job (YAML)")
      ->envname(std::string(contract::kEnvConfig));
  add_job_options(command, options);
}

std::vector<std::string> process_command(const std::string& command, const JobOptions& options) {
  std::vector<std::string> line = {
      "/proc/self/exe",
      command,
      "--config",
      options.config,
      "--log-format",
      options.console.log_format,
      "--log-level",
      options.console.log_level
  };
  if (options.console.log_steps) {
    line.emplace_back("--log-steps");
    line.push_back(std::to_string(*options.console.log_steps));
  }
  for (const std::string& text : options.overrides) {
    line.emplace_back("--set");
    line.push_back(text);
  }
  return line;
}

}  // namespace gnn::app
