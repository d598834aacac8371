#pragma once

#include <string>
#include <vector>

namespace gnn::bench {

/// One row of the table that scripts/gpu-check prints.
struct Figure {
  std::string what;
  double value = 0;
  std::string unit;
  std::string goal = {};  ///< ">= 300" or "<= 1.2"; empty: a limit, or a figure without a goal
};

/// The rows as scripts/gpu-check reads them: JSON.
[[nodiscard]] std::string text_of(const std::vector<Figure>& figures);

/// Runs `measure` and writes its figures to the file that `--json FILE` names, or else to standard
/// output. Returns the exit code: 1, with the reason on standard error, if it throws.
int write_figures(int argc, char** argv, std::vector<Figure> (*measure)());

}  // namespace gnn::bench
