#pragma once

#include "common/api/gnn_job.h"
#include "common/clock.h"
#include "common/random.h"
#include "common/result.h"
#include "worker/progress/progress_sink.h"
#include "worker/progress/tracking_data.h"
#include "worker/rendezvous/rendezvous.h"
#include "worker/tracking/tracker_thread.h"
#include "worker/tracking/tracking_sink.h"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace gnn::tracking {

/// The trackers of a job, as rank 0 tells them. None of them holds up training or changes how it ends.
/// Threads: one thread.
class Tracking {
 public:
  ~Tracking();
  Tracking(const Tracking&) = delete;
  Tracking& operator=(const Tracking&) = delete;

  /// `log_steps`: steps of an epoch between two that are told; 0: none is.
  /// Errors: Configuration, with field and reason, if a tracker cannot be told at all.
  [[nodiscard]] static Result<std::unique_ptr<Tracking>> open(
      const api::GnnJob& job, const rendezvous::Rendezvous& place, int64_t log_steps
  );

  /// What a rank reports goes there.
  [[nodiscard]] progress::ProgressSink& sink() { return sink_; }
  /// Tells them what waits and the end, for a few seconds at most, whatever they do.
  void close(RunEnd end);
  /// Tells what the trackers were told, until this is destroyed and after.
  [[nodiscard]] std::shared_ptr<const progress::TrackingMeter> meter() const { return meter_; }

 private:
  explicit Tracking(int64_t log_steps);
  // Begins to open a tracker, and waits for it a little.
  [[nodiscard]] Status add(std::string_view name, TrackerThread::Open open);
  [[nodiscard]] progress::TrackingData data() const;

  // Shared with threads, which may outlive this.
  std::shared_ptr<Clock> clock_ = std::make_shared<SystemClock>();
  std::shared_ptr<RandomSource> random_ = std::make_shared<SystemRandom>();
  std::vector<std::unique_ptr<TrackerThread>> trackers_;
  TrackingSink sink_;
  std::shared_ptr<progress::TrackingMeter> meter_;
};

}  // namespace gnn::tracking
