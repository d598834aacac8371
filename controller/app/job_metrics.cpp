#include "controller/app/job_metrics.h"

#include "common/api/enums.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/plan.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::app {
namespace {

using reconcile::find_condition;
using reconcile::is_true;
namespace condition = reconcile::condition;

constexpr std::array<const char*, 5> kTrainingGauges = {
    "gnnjob_epoch", "gnnjob_epochs", "gnnjob_loss", "gnnjob_rate", "gnnjob_metric"
};
constexpr std::array<std::string_view, 2> kResults = {condition::kComplete, condition::kFailed};
const std::vector<double> kMinutes = {1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200};
const std::vector<double> kHours = {
    10, 30, 60, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 259200
};

MetricLabels labels_of(const api::GnnJob& job) {
  return {{"namespace", job.metadata.namespace_}, {"job", job.metadata.name}};
}

MetricLabels with(MetricLabels labels, const std::string& name, const std::string& value) {
  labels[name] = value;
  return labels;
}

// Parses a decimal string of the status, which may be "Inf", "-Inf" or "NaN".
std::optional<double> number(const std::optional<std::string>& text) {
  if (!text || text->empty()) return std::nullopt;
  if (*text == "Inf") return std::numeric_limits<double>::infinity();
  if (*text == "-Inf") return -std::numeric_limits<double>::infinity();
  if (*text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  char* end = nullptr;
  const double value = std::strtod(text->c_str(), &end);
  if (end != text->c_str() + text->size()) return std::nullopt;
  return value;
}

double seconds_between(TimePoint from, TimePoint to) {
  return std::max(0.0, std::chrono::duration<double>(to - from).count());
}

// Whether the previous attempt ended in a failure that counts against maxRestarts.
bool charges_attempt(const api::GnnJobStatus& before, const api::GnnJobStatus& after) {
  return after.attempt > before.attempt && !after.failures.empty() &&
         after.failures.back().attempt + 1 == after.attempt && after.failures.back().charged;
}

}  // namespace

JobMetrics::JobMetrics(MetricsRegistry& registry) : registry_(registry) {
  // Created at zero, so that the first duration shows as an increase.
  queue_duration();
  startup_duration();
  for (const std::string_view result : kResults) run_duration(result);
}

Counter JobMetrics::restarts(const api::GnnJob& job, std::string_view reason) {
  return registry_.counter(
      "gnnjob_restarts_total",
      "Restarts that count against maxRestarts, by reason.",
      with(labels_of(job), "reason", std::string(reason))
  );
}

Histogram JobMetrics::queue_duration() {
  return registry_.histogram(
      "gnnjob_queue_duration_seconds", "Time from creation until all pods are scheduled.", kMinutes
  );
}

Histogram JobMetrics::startup_duration() {
  return registry_.histogram(
      "gnnjob_startup_duration_seconds", "Time from all pods scheduled until Running.", kMinutes
  );
}

Histogram JobMetrics::run_duration(std::string_view result) {
  return registry_.histogram(
      "gnnjob_run_duration_seconds",
      "Time from the job's startTime until it finished.",
      kHours,
      {{"result", std::string(result)}}
  );
}

void JobMetrics::show(const api::GnnJob& job) {
  const MetricLabels labels = labels_of(job);
  const api::GnnJobStatus& status = job.status;
  MetricLabels info = labels;
  info["task"] = std::string(api::to_string(job.spec.task.type));
  info["model"] = std::string(api::to_string(job.spec.model.type));
  registry_.gauge("gnnjob_info", "Always 1, for each GNNJob that exists.", info).set(1);
  // Created at zero, so that the first restart shows as an increase.
  for (const std::string_view reason : reconcile::kChargedReasons) restarts(job, reason);
  restarts(job, reconcile::kRestartedInPlace);
  for (const api::Condition& found : status.conditions) {
    for (const char* value : {"True", "False", "Unknown"}) {
      MetricLabels each = with(labels, "condition", found.type);
      each["status"] = value;
      registry_.gauge("gnnjob_condition", "Conditions of a GNNJob.", each)
          .set(found.status == value ? 1 : 0);
    }
  }
  const std::array<std::pair<const char*, int64_t>, 4> counts = {{
      {"desired", status.nodes.desired},
      {"ready", status.nodes.ready},
      {"succeeded", status.nodes.succeeded},
      {"failed", status.nodes.failed},
  }};
  for (const auto& [state, count] : counts) {
    registry_
        .gauge("gnnjob_nodes", "Nodes (pods) of a GNNJob by state.", with(labels, "state", state))
        .set(static_cast<double>(count));
  }
  if (!is_true(status, condition::kRunning)) {
    // A job that does not train has no loss and no rate.
    for (const char* name : kTrainingGauges) registry_.remove_series(name, labels);
    return;
  }
  if (!status.progress) return;
  const api::JobProgress& progress = *status.progress;
  const auto set = [&](const char* name, const char* help, std::optional<double> value) {
    if (value) registry_.gauge(name, help, labels).set(*value);
  };
  const auto count = [](const std::optional<int64_t>& value) -> std::optional<double> {
    if (!value) return std::nullopt;
    return static_cast<double>(*value);
  };
  set("gnnjob_epoch", "Current epoch, from 1.", count(progress.epoch));
  set("gnnjob_epochs", "Epochs in total.", count(progress.epochs));
  set("gnnjob_loss", "Mean loss of the last epoch.", number(progress.loss));
  set("gnnjob_rate", "Seeds (or graphs) per second, over all ranks.", number(progress.rate));
  const std::array<std::pair<const char*, const std::optional<std::string>*>, 3> metrics = {{
      {"train", &progress.train_metric},
      {"validation", &progress.validation_metric},
      {"test", &progress.test_metric},
  }};
  for (const auto& [split, text] : metrics) {
    if (const auto value = number(*text)) {
      registry_.gauge("gnnjob_metric", "The task's metric by split.", with(labels, "split", split))
          .set(*value);
    }
  }
}

void JobMetrics::count_change(const api::GnnJob& job, const api::GnnJobStatus& after) {
  const api::GnnJobStatus& before = job.status;
  count_restarts(job, after);
  const auto turned_true = [&](std::string_view type) -> const api::Condition* {
    return is_true(after, type) && !is_true(before, type) ? find_condition(after, type) : nullptr;
  };
  if (const api::Condition* scheduled = turned_true(condition::kScheduled);
      scheduled != nullptr && job.metadata.creation_timestamp && after.attempt <= 1) {
    queue_duration().observe(
        seconds_between(*job.metadata.creation_timestamp, scheduled->last_transition_time)
    );
  }
  const api::Condition* scheduled = find_condition(after, condition::kScheduled);
  if (const api::Condition* running = turned_true(condition::kRunning);
      running != nullptr && scheduled != nullptr && scheduled->status == "True") {
    startup_duration().observe(
        seconds_between(scheduled->last_transition_time, running->last_transition_time)
    );
  }
  for (const std::string_view result : kResults) {
    const api::Condition* end = turned_true(result);
    if (end == nullptr || !after.start_time) continue;
    run_duration(result).observe(seconds_between(*after.start_time, end->last_transition_time));
  }
}

void JobMetrics::count_restarts(const api::GnnJob& job, const api::GnnJobStatus& after) {
  int64_t in_place = after.restarts - job.status.restarts;
  if (in_place > 0 && charges_attempt(job.status, after)) {
    restarts(job, after.failures.back().reason).increment();
    --in_place;
  }
  // Agents report how often they restarted ranks, not why.
  if (in_place > 0) {
    restarts(job, reconcile::kRestartedInPlace).increment(static_cast<double>(in_place));
  }
}

void JobMetrics::remove(const std::string& namespace_, const std::string& name) {
  registry_.remove_series({{"namespace", namespace_}, {"job", name}});
}

}  // namespace gnn::app
