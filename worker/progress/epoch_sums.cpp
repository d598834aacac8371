#include "worker/progress/epoch_sums.h"

#include <cmath>
#include <limits>

namespace gnn::progress {
namespace {

// Whole multiples of this add up exactly, to about eight million, so that their order does not count:
// after a resume each rank has another part of the epoch in its sum.
constexpr double kResolution = 0x1p-30;

double rounded(double value) {
  return std::nearbyint(value / kResolution) * kResolution;
}

}  // namespace

void EpochSums::add(
    double mean_loss, double batch_weight, int64_t batch_items, int64_t batch_correct
) {
  loss += rounded(mean_loss * batch_weight);
  weight += rounded(batch_weight);
  items += batch_items;
  correct += batch_correct;
}

double EpochSums::average_loss() const {
  if (weight == 0) return std::numeric_limits<double>::quiet_NaN();
  return loss / weight;
}

}  // namespace gnn::progress
