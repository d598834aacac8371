#pragma once

#include "worker/progress/measure.h"

#include <cstdint>

namespace gnn::progress {

/// Sums over the batches of an epoch: of one rank, or of all ranks once they are added up.
struct EpochSums {
  double loss = 0;  ///< each batch's mean loss times its weight
  int64_t items = 0;
  int64_t correct = 0;
  /// What batches weigh in the loss: the sum of their items' weights, each 1 unless classes differ.
  double weight = 0;

  void add(double mean_loss, double batch_weight, int64_t batch_items, int64_t batch_correct);
  void add(double mean_loss, int64_t batch_items, int64_t batch_correct) {
    add(mean_loss, static_cast<double>(batch_items), batch_items, batch_correct);
  }
  [[nodiscard]] double average_loss() const;  ///< NaN without items
  [[nodiscard]] Measure measure() const { return accuracy(correct, items); }
};

}  // namespace gnn::progress
