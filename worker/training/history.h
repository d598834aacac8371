#pragma once

#include "common/result.h"
#include "worker/training/meters.h"
#include "worker/training/progress_sink.h"

#include <string>
#include <string_view>
#include <vector>

namespace gnn::training {

/// What a resumed run must know to report as if it had never stopped.
struct History {
  EpochSums sums;                   ///< of the epoch under way, over all ranks
  std::vector<EpochReport> epochs;  ///< those finished
};

/// JSON; the sums keep all their bits.
[[nodiscard]] std::string encode_history(const History& history);
/// Errors: Data naming what is missing.
[[nodiscard]] Result<History> decode_history(std::string_view text);

}  // namespace gnn::training
