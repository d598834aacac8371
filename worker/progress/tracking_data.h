#pragma once

#include "worker/progress/meter.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace gnn::progress {

/// What a tracker was told since the rank started. A record is what there is to tell of one step or
/// epoch.
struct TrackerCounts {
  int64_t written = 0;   ///< records
  int64_t dropped = 0;   ///< records, for want of room or because the tracker refused them
  int64_t failures = 0;  ///< calls that failed

  friend bool operator==(const TrackerCounts&, const TrackerCounts&) = default;
};

/// Names of trackers.
inline constexpr std::string_view kTensorBoard = "tensorboard";
inline constexpr std::string_view kMlflow = "mlflow";
inline constexpr std::array kTrackers{kTensorBoard, kMlflow};

/// By the tracker's name.
using TrackingData = std::map<std::string, TrackerCounts>;

/// Lets others read a rank's TrackingData while it trains, and what it was at the end.
using TrackingMeter = Meter<TrackingData>;

}  // namespace gnn::progress
