#pragma once

#include "common/api/gnn_job.h"
#include "common/metrics.h"

namespace gnn::app {

/// The gnnjob_* series: what each job is and does. They go with the job.
/// Threading: safe from any thread.
class JobMetrics {
 public:
  explicit JobMetrics(MetricsRegistry& registry) : registry_(registry) {}

  /// The gauges of a job as it is now.
  void show(const api::GnnJob& job);
  /// The counters and durations of what a status write changed.
  void count_change(const api::GnnJob& job, const api::GnnJobStatus& after);
  void remove(const std::string& namespace_, const std::string& name);

 private:
  MetricsRegistry& registry_;
};

}  // namespace gnn::app
