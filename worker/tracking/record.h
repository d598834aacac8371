#pragma once

#include "common/clock.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gnn::tracking {

/// A number that is drawn over steps.
struct Scalar {
  std::string name{};  ///< "epoch/loss", "validation/accuracy", …
  double value = 0;    ///< may be NaN or infinite

  friend bool operator==(const Scalar&, const Scalar&) = default;
};

/// What there is to tell of one moment of a training.
struct Record {
  int64_t step = 0;  ///< optimizer steps since the start of training, with the one that is told of
  TimePoint time{};
  /// The first record of a process: what was told of this step, and of later ones, by processes before
  /// it no longer counts. It has no scalars.
  bool start = false;
  std::vector<Scalar> scalars{};

  friend bool operator==(const Record&, const Record&) = default;
};

}  // namespace gnn::tracking
