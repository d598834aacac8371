#pragma once

#include "common/api/gnn_job.h"
#include "common/metrics.h"

#include <string>
#include <string_view>

namespace gnn::app {

/// The gnnjob_* series: what each job is and does. They go with the job.
/// Threading: safe from any thread.
class JobMetrics {
 public:
  explicit JobMetrics(MetricsRegistry& registry);

  /// The gauges of a job as it is now, and its counters, from zero on.
  void show(const api::GnnJob& job);
  /// The counters and durations of what a status write changed.
  void count_change(const api::GnnJob& job, const api::GnnJobStatus& after);
  void remove(const std::string& namespace_, const std::string& name);

 private:
  Counter restarts(const api::GnnJob& job, std::string_view reason);
  Histogram queue_duration();
  Histogram startup_duration();
  Histogram run_duration(std::string_view result);
  void count_restarts(const api::GnnJob& job, const api::GnnJobStatus& after);

  MetricsRegistry& registry_;
};

}  // namespace gnn::app
