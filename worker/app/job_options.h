#pragma once

#include "worker/app/console.h"

#include <string>
#include <vector>

namespace gnn::app {

/// What a command that takes part in a job is told on its command line.
struct JobOptions {
  ConsoleChoice console;
  std::string config;  ///< file with the GNNJob
  std::vector<std::string> overrides;
};

/// Adds --set and the options of the console.
void add_job_options(CLI::App& command, JobOptions& options);

/// The same and --config, for a process of a job that another one starts.
void add_process_options(CLI::App& command, JobOptions& options);

/// The command line of such a process: this program's `command`, with the same options.
[[nodiscard]] std::vector<std::string> process_command(
    const std::string& command, const JobOptions& options
);

}  // namespace gnn::app
