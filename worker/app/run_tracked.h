#pragma once

#include "common/api/gnn_job.h"
#include "common/result.h"
#include "worker/app/run_rank.h"
#include "worker/progress/tracking_data.h"
#include "worker/tasks/task.h"

#include <cstdint>
#include <functional>
#include <memory>

namespace gnn::app {

struct TrackedRunOptions {
  int64_t log_steps = 0;  ///< steps of an epoch between two that trackers are told; 0: none is
  /// Called with the counts of what trackers are told; may be empty.
  std::function<void(const std::shared_ptr<const progress::TrackingMeter>& meter)> on_meter{};
};

/// run_rank(), and on rank 0 the trackers of the job are told of it.
/// Errors: those of run_rank(); Configuration if a tracker of the job cannot be told at all.
[[nodiscard]] Result<tasks::TaskResult> run_tracked(
    const api::GnnJob& job, const RankOptions& options, const TrackedRunOptions& tracked
);

}  // namespace gnn::app
