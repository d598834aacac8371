#pragma once

#include "worker/progress/measure.h"

#include <cstdint>

namespace gnn::progress {

/// Sums over the batches of an epoch: of one rank, or of all ranks once they are added up.
struct EpochSums {
  double loss = 0;  ///< each batch's mean loss times its items
  int64_t items = 0;
  int64_t correct = 0;

  void add(double mean_loss, int64_t batch_items, int64_t batch_correct);
  [[nodiscard]] double average_loss() const;  ///< NaN without items
  [[nodiscard]] Measure measure() const { return accuracy(correct, items); }
};

}  // namespace gnn::progress
