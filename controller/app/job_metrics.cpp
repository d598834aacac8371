#include "controller/app/job_metrics.h"

#include "common/api/enums.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gnn::app {
namespace {

constexpr std::string_view kTrue = "True";
constexpr std::array<const char*, 5> kTrainingGauges = {
    "gnnjob_epoch", "gnnjob_epochs", "gnnjob_loss", "gnnjob_rate", "gnnjob_metric"
};
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

const api::Condition* find(const api::GnnJobStatus& status, std::string_view type) {
  for (const api::Condition& condition : status.conditions) {
    if (condition.type == type) return &condition;
  }
  return nullptr;
}

bool is_true(const api::GnnJobStatus& status, std::string_view type) {
  const api::Condition* condition = find(status, type);
  return condition != nullptr && condition->status == kTrue;
}

/// A decimal string of the status; "Inf" and "-Inf" are numbers, too.
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

}  // namespace

void JobMetrics::show(const api::GnnJob& job) {
  const MetricLabels labels = labels_of(job);
  const api::GnnJobStatus& status = job.status;
  MetricLabels info = labels;
  info["task"] = std::string(api::to_string(job.spec.task.type));
  info["model"] = std::string(api::to_string(job.spec.model.type));
  registry_.gauge("gnnjob_info", "A GNNJob that exists.", info).set(1);
  for (const api::Condition& condition : status.conditions) {
    for (const char* value : {"True", "False", "Unknown"}) {
      MetricLabels each = with(labels, "condition", condition.type);
      each["status"] = value;
      registry_.gauge("gnnjob_condition", "Conditions of a GNNJob.", each)
          .set(condition.status == value ? 1 : 0);
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
  if (!is_true(status, "Running")) {
    // What does not train has no loss and no rate.
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
  set("gnnjob_epoch", "Epochs begun, from 1.", count(progress.epoch));
  set("gnnjob_epochs", "Epochs to do.", count(progress.epochs));
  set("gnnjob_loss", "Mean loss of the last epoch.", number(progress.loss));
  set("gnnjob_rate", "Seeds (or graphs) per second over all ranks.", number(progress.rate));
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
  if (after.restarts > before.restarts) {
    const std::string reason = after.last_failure ? after.last_failure->reason : "Unknown";
    registry_
        .counter(
            "gnnjob_restarts_total",
            "Restarts that count against maxRestarts, by reason.",
            with(labels_of(job), "reason", reason)
        )
        .increment(static_cast<double>(after.restarts - before.restarts));
  }
  const auto turned_true = [&](std::string_view type) -> const api::Condition* {
    return is_true(after, type) && !is_true(before, type) ? find(after, type) : nullptr;
  };
  if (const api::Condition* scheduled = turned_true("Scheduled");
      scheduled != nullptr && job.metadata.creation_timestamp && after.attempt <= 1) {
    registry_
        .histogram("gnnjob_queue_duration_seconds", "From created to all pods placed.", kMinutes)
        .observe(seconds_between(*job.metadata.creation_timestamp, scheduled->last_transition_time)
        );
  }
  const api::Condition* scheduled = find(after, "Scheduled");
  if (const api::Condition* running = turned_true("Running");
      running != nullptr && scheduled != nullptr && scheduled->status == kTrue) {
    registry_
        .histogram("gnnjob_startup_duration_seconds", "From all pods placed to running.", kMinutes)
        .observe(seconds_between(scheduled->last_transition_time, running->last_transition_time));
  }
  for (const char* result : {"Complete", "Failed"}) {
    const api::Condition* end = turned_true(result);
    if (end == nullptr || !after.start_time) continue;
    registry_
        .histogram(
            "gnnjob_run_duration_seconds",
            "From the job's startTime to finished.",
            kHours,
            {{"result", result}}
        )
        .observe(seconds_between(*after.start_time, end->last_transition_time));
  }
}

void JobMetrics::remove(const std::string& namespace_, const std::string& name) {
  registry_.remove_series({{"namespace", namespace_}, {"job", name}});
}

}  // namespace gnn::app
