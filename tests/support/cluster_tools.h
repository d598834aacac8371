#pragma once

#include "common/result.h"

#include <string>
#include <string_view>

namespace gnn::testing {

/// The folder with the programs that tools/cluster/<folder>/build makes from pinned Go modules, if this machine
/// has it not yet (minutes). Those of "go" may be elsewhere: in $GNN_CLUSTER_TOOLS.
[[nodiscard]] Result<std::string> cluster_tools(std::string_view folder);

}  // namespace gnn::testing
