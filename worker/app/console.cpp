#include "worker/app/console.h"

#include "common/log.h"
#include "common/progress_bar.h"
#include "worker/progress/console_sink.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <unistd.h>

namespace gnn::app {

void add_console_options(CLI::App& command, ConsoleChoice& choice) {
  command.add_option(
      "--log-format", choice.log_format, "console (default), or json: one object per line"
  );
  command.add_option(
      "--log-level",
      choice.log_level,
      "Lowest level to log: debug, info (default), warning or error"
  );
  command
      .add_option(
          "--log-steps",
          choice.log_steps,
          "Steps between two lines with loss and seconds per step; 0: none (default: "
          "spec.training.logSteps)"
      )
      ->check(CLI::NonNegativeNumber);
}

Status apply_console_options(const ConsoleChoice& choice) {
  LogOptions options;
  GNN_ASSIGN_OR_RETURN(options.format, parse_log_format(choice.log_format));
  GNN_ASSIGN_OR_RETURN(options.level, parse_log_level(choice.log_level));
  init_logging(options);
  return {};
}

int64_t log_steps_of(const ConsoleChoice& choice, const api::Training& training) {
  return choice.log_steps.value_or(training.log_steps);
}

std::unique_ptr<progress::ProgressSink> make_console_sink(
    const ConsoleChoice& choice, const api::Training& training
) {
  progress::ConsoleOptions options;
  options.log_steps = log_steps_of(choice, training);
  if (choice.log_format == "json") {
    options.format = progress::ConsoleFormat::Json;
    return std::make_unique<progress::ConsoleSink>(stdout, nullptr, options);
  }
  // Without a terminal there is no bar: each epoch has its own line.
  std::unique_ptr<ProgressBar> bar;
  if (isatty(STDERR_FILENO) != 0) bar = make_progress_bar(stderr);
  return std::make_unique<progress::ConsoleSink>(stdout, std::move(bar), options);
}

}  // namespace gnn::app
