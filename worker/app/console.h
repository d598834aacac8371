#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/progress/progress_sink.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace gnn::app {

/// The user's choices for output: the same options on every subcommand that trains.
struct ConsoleChoice {
  std::string log_format = "console";  ///< console or json
  std::string log_level = "info";
  std::optional<int64_t> log_steps;  ///< absent: spec.training.logSteps
};

void add_console_options(CLI::App& command, ConsoleChoice& choice);

/// Sets up the log.
/// Errors: Configuration naming the option.
[[nodiscard]] Status apply_console_options(const ConsoleChoice& choice);

/// Steps of an epoch between two that are shown; 0: none is.
[[nodiscard]] int64_t log_steps_of(const ConsoleChoice& choice, const api::Training& training);

/// Progress on standard output: JSON lines, or the tutorials' lines with a bar on standard error if
/// that is a terminal.
[[nodiscard]] std::unique_ptr<progress::ProgressSink> make_console_sink(
    const ConsoleChoice& choice, const api::Training& training
);

}  // namespace gnn::app
