#include "worker/progress/epoch_sums.h"

#include <limits>

namespace gnn::progress {

void EpochSums::add(double mean_loss, int64_t batch_items, int64_t batch_correct) {
  loss += mean_loss * static_cast<double>(batch_items);
  items += batch_items;
  correct += batch_correct;
}

double EpochSums::average_loss() const {
  if (items == 0) return std::numeric_limits<double>::quiet_NaN();
  return loss / static_cast<double>(items);
}

}  // namespace gnn::progress
