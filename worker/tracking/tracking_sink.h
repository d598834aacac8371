#pragma once

#include "common/clock.h"
#include "worker/progress/console_sink.h"
#include "worker/progress/progress_sink.h"
#include "worker/tracking/record.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace gnn::tracking {

/// Makes records of what a rank reports: of every `log_steps`-th step of an epoch, of each epoch, and
/// of the end. Values of undefined metrics are left out.
/// Threads: as ProgressSink.
class TrackingSink final : public progress::NullSink {
 public:
  /// `log_steps` 0: no steps. `clock` outlives it; `tell` gets each record.
  TrackingSink(int64_t log_steps, const Clock& clock, std::function<void(const Record&)> tell);

  void on_step(const progress::StepReport& report) override;
  void on_epoch(const progress::EpochReport& report) override;
  void on_final(const progress::FinalReport& report) override;

 private:
  void start_at(int64_t step);
  void tell(int64_t step, std::vector<Scalar> scalars);

  int64_t log_steps_;
  const Clock& clock_;
  std::function<void(const Record&)> tell_;
  bool started_ = false;
  std::optional<double> learning_rate_;  // of the last step
};

}  // namespace gnn::tracking
