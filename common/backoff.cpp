#include "common/backoff.h"

#include <algorithm>
#include <cmath>

namespace gnn {

Duration exponential_delay(const BackoffOptions& options, int64_t attempt) {
  const double cap = static_cast<double>(options.cap.count());
  // pow() gives infinity for many attempts, which min() brings back to the cap.
  const double delay = static_cast<double>(options.initial.count()) *
                       std::pow(options.factor, static_cast<double>(attempt));
  return Duration(static_cast<Duration::rep>(std::min(delay, cap)));
}

Duration Backoff::next(RandomSource& random) {
  const double base = static_cast<double>(exponential_delay(options_, attempt_).count());
  ++attempt_;
  return Duration(static_cast<Duration::rep>(base * (1.0 + options_.jitter * random.uniform())));
}

}  // namespace gnn
