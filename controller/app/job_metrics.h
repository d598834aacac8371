#pragma once

#include "common/api/gnn_job.h"
#include "common/metrics.h"

#include <string>
#include <string_view>

namespace gnn::app {

/// The gnnjob_* series: what each job is and does. They are removed with the job.
/// Threads: safe from any thread.
class JobMetrics {
 public:
  explicit JobMetrics(MetricsRegistry& registry);

  /// Sets the job's gauges, and creates its counters at zero.
  void show(const api::GnnJob& job);
  /// Counts what a status write changed: restarts and durations.
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
