#include "worker/app/console.h"

#include "common/log.h"
#include "common/progress.h"
#include "worker/training/console_sink.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <unistd.h>

namespace gnn::app {

void add_console_options(CLI::App& command, ConsoleChoice& choice) {
  command.add_option(
      "--log-format", choice.log_format, "console (default), or json: one object a line"
  );
  command.add_option("--log-level", choice.log_level, "debug, info (default), warning or error");
}

Status apply_console_options(const ConsoleChoice& choice) {
  LogOptions options;
  GNN_ASSIGN_OR_RETURN(options.format, parse_log_format(choice.log_format));
  GNN_ASSIGN_OR_RETURN(options.level, parse_log_level(choice.log_level));
  init_logging(options);
  return {};
}

std::unique_ptr<training::ProgressSink> make_console_sink(const ConsoleChoice& choice) {
  if (choice.log_format == "json") {
    return std::make_unique<training::ConsoleSink>(
        stdout, nullptr, training::ConsoleOptions{.format = training::ConsoleFormat::Json}
    );
  }
  // Plain lines are the epochs' own: without a terminal no bar is wanted.
  std::unique_ptr<Progress> bar;
  if (isatty(STDERR_FILENO) != 0) bar = make_progress(stderr);
  return std::make_unique<training::ConsoleSink>(
      stdout, std::move(bar), training::ConsoleOptions{}
  );
}

}  // namespace gnn::app
