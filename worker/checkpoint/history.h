#pragma once

#include "worker/progress/epoch_sums.h"
#include "worker/progress/progress_sink.h"

#include <nlohmann/json_fwd.hpp>

#include <vector>

namespace gnn::checkpoint {

/// What a resumed run needs to report as if it had never stopped.
struct History {
  progress::EpochSums sums;                   ///< of the epoch under way, over all ranks
  std::vector<progress::EpochReport> epochs;  ///< the finished ones, in order
};

/// The history as it stands in a manifest. Doubles keep all their bits; NaN becomes null. An
/// epoch's step seconds are left out: they are one rank's.
[[nodiscard]] nlohmann::json to_json(const History& history);
/// Errors: throws nlohmann::json::exception naming what is missing or of a wrong type.
[[nodiscard]] History history_of(const nlohmann::json& json);

}  // namespace gnn::checkpoint
