#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/comm/rank_groups.h"
#include "worker/graph/dataset.h"

#include <cstdint>
#include <optional>

namespace gnn::tasks {

/// Checks before the first step that each node has the data that the spec's placement asks of it: the
/// same data set, with as many partitions as the spec says, and the whole of it or the node's own
/// partition. Collective; nothing to check without a placement. `server`: the number of a sampling
/// server, which is alone in `groups`; what others have it learns when it meets them.
/// Errors: Configuration and Data, naming node and path, the same on all ranks; PeerLost.
[[nodiscard]] Status check_placement(
    const api::GnnJobSpec& spec,
    const graph::Dataset& dataset,
    const comm::RankGroups& groups,
    std::optional<int64_t> server = std::nullopt
);

}  // namespace gnn::tasks
