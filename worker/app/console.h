#pragma once

#include "common/result.h"
#include "worker/training/progress_sink.h"

#include <memory>
#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace gnn::app {

/// What a person chooses of the output; the same options on every subcommand that trains.
struct ConsoleChoice {
  std::string log_format = "console";  ///< console or json
  std::string log_level = "info";
};

void add_console_options(CLI::App& command, ConsoleChoice& choice);

/// Sets up the log. Errors: Configuration naming the option.
[[nodiscard]] Status apply_console_options(const ConsoleChoice& choice);

/// Progress on standard output: the tutorials' lines with a bar on standard error when that is a
/// terminal, or JSON lines.
[[nodiscard]] std::unique_ptr<training::ProgressSink> make_console_sink(const ConsoleChoice& choice
);

}  // namespace gnn::app
