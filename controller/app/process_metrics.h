#pragma once

#include "common/metrics.h"

namespace gnn::app {

/// Prometheus' standard process_* series; update() reads /proc.
/// Threads: one at a time.
class ProcessMetrics {
 public:
  explicit ProcessMetrics(MetricsRegistry& registry);
  void update();

 private:
  Gauge resident_;
  Gauge virtual_;
  Gauge open_fds_;
  Counter cpu_seconds_;
};

}  // namespace gnn::app
