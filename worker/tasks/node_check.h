#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/comm/communicator.h"
#include "worker/graph/load.h"

#include <chrono>
#include <string>

namespace gnn::tasks {

/// Where the contents of mapped files are checked, and what is known of them.
struct NodeCheck {
  comm::Communicator& node;     ///< of the ranks that map the same files
  ProgressBar& progress;        ///< of this rank
  std::string checked_version;  ///< version of the files that were found right before, or empty
  ProgressBarClock clock = &std::chrono::steady_clock::now;
};

/// Has each rank of a node check its share of files of `version`, and gives all of them the same
/// answer. Nothing is checked if that is the version that was found right before; a rank that has
/// mapped files of another version than the other ranks checks all of its own. Collective on the
/// node.
/// Ranks exchange a sign of progress about once a second, so that those that wait make progress as
/// long as all others do.
/// Errors: Data, the first rank's that has one; PeerLost.
[[nodiscard]] Status check_on_node(
    const NodeCheck& context, const std::string& version, const graph::ContentCheck& check
);

}  // namespace gnn::tasks
