#pragma once

#include "common/result.h"
#include "common/stop_token.h"
#include "worker/comm/communicator.h"

#include <string_view>

namespace gnn::training {

/// Tells every rank whether rank 0 succeeded; the others blame it: "rank 0 " and `failure`.
/// Collective. The others' own `mine` does not count unless it is an error.
/// Errors: that of `mine`; PeerLost on the other ranks.
[[nodiscard]] Status agree(
    comm::Communicator& communicator, const Status& mine, std::string_view failure
);

/// Whether all ranks say so. Collective.
[[nodiscard]] Result<bool> on_all(comm::Communicator& communicator, bool mine);

/// Whether no rank was asked to stop. Collective.
[[nodiscard]] Result<bool> none_stops(comm::Communicator& communicator, const StopToken& stop);

}  // namespace gnn::training
