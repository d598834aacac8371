#include "worker/training/validations.h"

#include <cmath>

namespace gnn::training {

bool Validations::add(const progress::EpochReport& epoch) {
  if (epoch.epoch <= newest_epoch_ || !epoch.global_step) return false;
  if (!epoch.validation || epoch.validation->metric != metric_) return false;
  newest_epoch_ = epoch.epoch;
  const double value = epoch.validation->value;
  const bool is_number = !std::isnan(value);
  if (is_number && (!improved_to_ || value > *improved_to_ + min_delta_)) {
    improved_to_ = value;
    without_improvement_ = 0;
  } else {
    ++without_improvement_;
  }
  if (!is_number || (best_ && !(value > best_->value))) return false;
  best_ = Best{.epoch = epoch.epoch, .value = value, .global_step = *epoch.global_step};
  return true;
}

}  // namespace gnn::training
