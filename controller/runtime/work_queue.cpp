#include "controller/runtime/work_queue.h"

#include <vector>

namespace gnn::runtime {
namespace {

const std::vector<double> kWaitBuckets = {
    1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000
};

}  // namespace

WorkQueueMetrics::WorkQueueMetrics(MetricsRegistry& registry, const std::string& name)
    : depth(registry.gauge("workqueue_depth", "Current depth of the workqueue.", {{"name", name}})),
      adds(registry.counter(
          "workqueue_adds_total", "Total number of adds handled by the workqueue.", {{"name", name}}
      )),
      retries(registry.counter(
          "workqueue_retries_total",
          "Total number of retries handled by the workqueue.",
          {{"name", name}}
      )),
      queue_duration(registry.histogram(
          "workqueue_queue_duration_seconds",
          "How long in seconds an item stays in the workqueue before being requested.",
          kWaitBuckets,
          {{"name", name}}
      )),
      work_duration(registry.histogram(
          "workqueue_work_duration_seconds",
          "How long in seconds processing an item from the workqueue takes.",
          kWaitBuckets,
          {{"name", name}}
      )),
      unfinished_work(registry.gauge(
          "workqueue_unfinished_work_seconds",
          "How many seconds of work is in progress and not yet observed by work_duration.",
          {{"name", name}}
      )),
      longest_running(registry.gauge(
          "workqueue_longest_running_processor_seconds",
          "How many seconds the longest running processor of the workqueue has been running.",
          {{"name", name}}
      )) {}

}  // namespace gnn::runtime
