#include "worker/progress/epoch_sums.h"

#include <cmath>
#include <limits>

namespace gnn::progress {
namespace {

// Whole multiples of this add up exactly, to about eight million, so that their order does not count:
// after a resume each rank has another part of the epoch in its sum.
constexpr double kResolution = 0x1p-30;

}  // namespace

void EpochSums::add(double mean_loss, int64_t batch_items, int64_t batch_correct) {
  loss += std::nearbyint(mean_loss * static_cast<double>(batch_items) / kResolution) * kResolution;
  items += batch_items;
  correct += batch_correct;
}

double EpochSums::average_loss() const {
  if (items == 0) return std::numeric_limits<double>::quiet_NaN();
  return loss / static_cast<double>(items);
}

}  // namespace gnn::progress
