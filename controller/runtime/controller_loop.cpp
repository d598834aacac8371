#include "controller/runtime/controller_loop.h"

#include "common/log.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

namespace gnn::runtime {
namespace {

const std::vector<double> kReconcileBuckets = {
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60
};
constexpr std::array<const char*, 3> kResults = {"success", "requeue_after", "error"};

QueueSharing<objects::ObjectKey> sharing(int64_t workers) {
  return {
      .owner_of = [](const objects::ObjectKey& key) { return key.namespace_; },
      .share = share_of(static_cast<size_t>(workers)),
      .places = static_cast<size_t>(workers),
  };
}

}  // namespace

ControllerLoop::ControllerLoop(
    ControllerLoopOptions options,
    Clock& clock,
    RandomSource& random,
    MetricsRegistry& metrics,
    Reconcile reconcile
)
    : options_(std::move(options)),
      clock_(clock),
      random_(random),
      metrics_(metrics),
      reconcile_(std::move(reconcile)),
      queue_(clock, WorkQueueMetrics(metrics, options_.name), sharing(options_.workers)),
      backoff_(options_.backoff),
      errors_(metrics.counter(
          "controller_runtime_reconcile_errors_total",
          "Total number of reconciliation errors per controller.",
          {{"controller", options_.name}}
      )),
      panics_(metrics.counter(
          "controller_runtime_reconcile_panics_total",
          "Total number of reconciliation panics per controller.",
          {{"controller", options_.name}}
      )),
      time_(metrics.histogram(
          "controller_runtime_reconcile_time_seconds",
          "Length of time per reconciliation per controller.",
          kReconcileBuckets,
          {{"controller", options_.name}}
      )),
      active_(metrics.gauge(
          "controller_runtime_active_workers",
          "Number of currently used workers per controller.",
          {{"controller", options_.name}}
      )) {
  metrics
      .gauge(
          "controller_runtime_max_concurrent_reconciles",
          "Maximum number of concurrent reconciles per controller.",
          {{"controller", options_.name}}
      )
      .set(static_cast<double>(options_.workers));
  // Created at zero, so that the first of each shows as an increase.
  for (const char* result : kResults) count(result, 0);
  // Every error is retried, so this stays at zero; stock dashboards and alerts read it.
  metrics.counter(
      "controller_runtime_terminal_reconcile_errors_total",
      "Total number of terminal reconciliation errors per controller.",
      {{"controller", options_.name}}
  );
}

ControllerLoop::~ControllerLoop() {
  stop();
}

void ControllerLoop::start() {
  queue_.begin();
  for (int64_t i = 0; i < options_.workers; ++i) threads_.emplace_back([this] { work(); });
}

void ControllerLoop::stop() {
  queue_.shut_down();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  threads_.clear();
}

void ControllerLoop::work() {
  while (const auto key = queue_.get()) {
    active_.add(1);
    const MonotonicPoint started = clock_.monotonic();
    const Outcome outcome = reconcile_once(*key);
    time_.observe(std::chrono::duration<double>(clock_.monotonic() - started).count());
    requeue(*key, outcome);
    queue_.done(*key);
    active_.add(-1);
  }
}

Outcome ControllerLoop::reconcile_once(const objects::ObjectKey& key) {
  try {
    return reconcile_(key);
  } catch (const std::exception& error) {
    panics_.increment();
    return Retry{.error = std::string("exception: ") + error.what(), .at_least = {}};
  }
}

void ControllerLoop::requeue(const objects::ObjectKey& key, const Outcome& outcome) {
  if (std::holds_alternative<Done>(outcome)) {
    count("success");
    backoff_.forget(key);
  } else if (const auto* later = std::get_if<RequeueAfter>(&outcome)) {
    count("requeue_after");
    backoff_.forget(key);
    queue_.add_after(key, later->delay);
  } else if (const auto* retry = std::get_if<Retry>(&outcome)) {
    count("error");
    errors_.increment();
    Duration delay = backoff_.next(key, random_);
    if (retry->at_least) delay = std::max(delay, *retry->at_least);
    log_warning(
        "reconcile failed, will retry",
        {{"job", objects::to_string(key)},
         {"error", retry->error},
         {"retry_seconds", std::chrono::duration<double>(delay).count()}}
    );
    queue_.retry_after(key, delay);
  }
}

void ControllerLoop::count(const std::string& result, double by) {
  metrics_
      .counter(
          "controller_runtime_reconcile_total",
          "Total number of reconciliations per controller.",
          {{"controller", options_.name}, {"result", result}}
      )
      .increment(by);
}

}  // namespace gnn::runtime
