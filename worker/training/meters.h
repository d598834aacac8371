#pragma once

#include "common/result.h"
#include "worker/distributed/comm/communicator.h"
#include "worker/training/progress_sink.h"
#include "worker/training/workload.h"

#include <chrono>
#include <cstdint>

namespace gnn::training {

/// Sums over the batches of an epoch; on one rank, or after reduce() over all of them.
struct EpochSums {
  double loss = 0;  ///< each batch's mean loss times its items
  int64_t items = 0;
  int64_t correct = 0;

  void add(double mean_loss, int64_t batch_items, int64_t batch_correct);
  [[nodiscard]] double average_loss() const;  ///< NaN without items
  [[nodiscard]] Accuracy accuracy() const { return {.correct = correct, .total = items}; }
};

/// The sums of all ranks, on every rank, the same bits. Collective.
[[nodiscard]] Result<EpochSums> reduce(comm::Communicator& communicator, const EpochSums& mine);

/// How many of the labels have the highest logit; the first of equals counts.
[[nodiscard]] int64_t count_correct(const Scores& scores);

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

StepSeconds& operator+=(StepSeconds& sum, const StepSeconds& more);

}  // namespace gnn::training
