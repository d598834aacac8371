#pragma once

#include "common/progress_bar.h"
#include "worker/comm/rank_groups.h"
#include "worker/loader/row_device.h"

#include <memory>

namespace gnn::tasks {

/// `device` of a rank, whose pin() is collective among the ranks of its node: where a driver refuses to
/// pin memory as it is, as some do with read-only mappings of files, it is copied once into memory that all
/// ranks of the node share, and that is pinned. `progress` outlives it.
/// Errors of pin(): those of the device; PeerLost.
[[nodiscard]] std::shared_ptr<loader::RowDevice> node_row_device(
    std::shared_ptr<loader::RowDevice> device, const comm::RankGroups& groups, ProgressBar& progress
);

}  // namespace gnn::tasks
