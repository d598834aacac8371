#pragma once

#include "controller/app/options.h"

#include <iosfwd>

namespace gnn::app {

/// The exit codes of `validate`, besides those of a wrong command line.
inline constexpr int kExitInvalid = 1;   ///< a document is invalid
inline constexpr int kExitNoInput = 66;  ///< a path can't be read, or there is no GNNJob in any

/// Judges the GNNJobs in the files that the options name; "-" is `input`. Needs no cluster. Writes a line for each
/// finding to `output`.
[[nodiscard]] int run_validate(const Options& options, std::istream& input, std::ostream& output);

}  // namespace gnn::app
