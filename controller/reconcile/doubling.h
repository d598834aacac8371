#pragma once

#include "common/clock.h"

#include <algorithm>
#include <cstdint>

namespace gnn::reconcile {

/// `first`, doubled that many times, but no longer than `cap`.
[[nodiscard]] inline Duration doubled(Duration first, int64_t times, Duration cap) {
  Duration wait = first;
  for (int64_t i = 0; i < times && wait < cap; ++i) wait *= 2;
  return std::min(wait, cap);
}

}  // namespace gnn::reconcile
