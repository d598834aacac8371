#pragma once

#include "common/result.h"
#include "worker/comm/communicator.h"
#include "worker/progress/epoch_sums.h"
#include "worker/progress/progress_sink.h"
#include "worker/report/run_record.h"

#include <chrono>
#include <vector>

namespace gnn::training {

/// The sums of all ranks, on every rank, the same bits. Collective.
[[nodiscard]] Result<progress::EpochSums> reduce(
    comm::Communicator& communicator, const progress::EpochSums& mine
);

/// What each rank has done, by rank, on every rank. Collective.
[[nodiscard]] Result<std::vector<report::RankRecord>> gather(
    comm::Communicator& communicator, const report::RankRecord& mine
);

/// Measures consecutive laps.
class LapTimer {
 public:
  /// Seconds since the last lap, or since construction.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace gnn::training
