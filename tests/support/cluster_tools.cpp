#include "tests/support/cluster_tools.h"

#include "tests/support/process.h"
#include "tests/support/source_dir.h"

#include <chrono>
#include <cstdlib>

namespace gnn::testing {

Result<std::string> cluster_tools(std::string_view folder) {
  const char* given = std::getenv("GNN_CLUSTER_TOOLS");
  const bool is_given = given != nullptr && *given != '\0';
  if (folder == "go" && is_given) return std::string(given);
  const std::string program = source_dir() + "/tools/cluster/" + std::string(folder) + "/build";
  GNN_ASSIGN_OR_RETURN(CommandOutput built, run_command({program}, {}, std::chrono::minutes(30)));
  if (built.exit_code != 0) {
    return fail(ErrorKind::Configuration, "the cluster's programs are missing: " + built.errors);
  }
  while (!built.output.empty() && built.output.back() == '\n') built.output.pop_back();
  return built.output;
}

}  // namespace gnn::testing
