#include "controller/app/job_metrics.h"

#include "common/api/enums.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/plan.h"
#include "controller/reconcile/spec_errors.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

using reconcile::find_condition;
using reconcile::is_true;
namespace condition = reconcile::condition;

constexpr std::array<std::string_view, 2> kResults = {condition::kComplete, condition::kFailed};
const std::vector<double> kMinutes = {1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200};
const std::vector<double> kHours = {
    10, 30, 60, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 259200
};

objects::ObjectKey key_of(const api::GnnJob& job) {
  return {job.metadata.namespace_, job.metadata.name};
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

int64_t gpus_of(const api::GnnJobSpec& spec) {
  const api::Workers& workers = spec.workers;
  return workers.nodes * workers.processes_per_node * workers.gpus_per_process;
}

// Whether the previous attempt ended in a failure that counts against maxRestarts.
bool charges_attempt(const api::GnnJobStatus& before, const api::GnnJobStatus& after) {
  return after.attempt > before.attempt && !after.failures.empty() &&
         after.failures.back().attempt + 1 == after.attempt && after.failures.back().charged;
}

std::optional<double> number(const std::optional<int64_t>& count) {
  if (!count) return std::nullopt;
  return static_cast<double>(*count);
}

// How many series of a page are there at once.
constexpr size_t kPart = 1024;

using Type = SeriesFamily::Type;

// As the worker calls it. What a pod reports may be anything, and another word each time.
std::string metric_of(const api::Evaluation& evaluation) {
  switch (evaluation.metric.value_or(api::Metric::Accuracy)) {
    case api::Metric::Accuracy:
      return "accuracy";
    case api::Metric::AUC:
      return "auc";
    case api::Metric::AveragePrecision:
      return "average_precision";
    case api::Metric::Hits:
      return "hits@" + std::to_string(evaluation.hits_k.value_or(1));
    case api::Metric::MRR:
      return "mrr";
  }
  return "";
}

}  // namespace

JobMetrics::JobMetrics(MetricsRegistry& registry, const Clock& clock)
    : registry_(registry), clock_(clock) {
  // Created at zero, so that the first duration shows as an increase.
  queue_duration();
  startup_duration();
  for (const std::string_view result : kResults) run_duration(result);
  registry.add_source([this](const auto& take) { read(take); });
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
  const api::GnnJobStatus& status = job.status;
  auto jobs = jobs_.lock();
  Shown& shown = (*jobs)[key_of(job)];
  shown.task = api::to_string(job.spec.task.type);
  shown.model = api::to_string(job.spec.model.type);
  shown.metric = metric_of(job.spec.training.evaluation);
  shown.conditions.clear();
  for (const api::Condition& found : status.conditions) {
    if (reconcile::is_of_kstatus(found.type)) continue;
    shown.conditions.emplace_back(found.type, found.status);
  }
  shown.nodes = status.nodes;
  shown.servers = job.spec.servers ? status.servers : std::nullopt;
  shown.gpus = reconcile::is_finished(status) ? 0 : gpus_of(job.spec);
  shown.gpus_idle = !reconcile::idle_gpus(job.spec).empty();
  // A job that does not train has no loss and no rate.
  shown.progress = is_true(status, condition::kRunning) ? status.progress : std::nullopt;
  // Created at zero, so that the first restart shows as an increase.
  for (const std::string_view reason : reconcile::kChargedReasons) {
    shown.restarts.try_emplace(std::string(reason));
  }
  shown.restarts.try_emplace(std::string(reconcile::kRestartedInPlace));
  shown.ended.reset();
  if (reconcile::is_finished(status)) shown.ended = status.completion_time.value_or(TimePoint());
  if (is_long_ended(shown)) jobs->erase(key_of(job));
}

bool JobMetrics::is_long_ended(const Shown& job) const {
  return job.ended && clock_.now() >= *job.ended + kShownAfterEnd;
}

JobMetrics::Jobs JobMetrics::shown_now() {
  auto jobs = jobs_.lock();
  std::erase_if(*jobs, [this](const auto& job) { return is_long_ended(job.second); });
  return *jobs;
}

void JobMetrics::read(const TakePart& take) {
  const Jobs jobs = shown_now();
  read_states(jobs, take);
  read_progress(jobs, take);
}

void JobMetrics::read_family(
    const Jobs& jobs, SeriesFamily family, const TakePart& take, const TellSeries& tell
) {
  const auto hand_over = [&] {
    SeriesFamily part{family.name, family.help, family.type, std::exchange(family.series, {})};
    take(std::move(part));
  };
  for (const auto& job : jobs) {
    const auto add = [&](MetricLabels labels, double value) {
      labels["namespace"] = job.first.namespace_;
      labels["job"] = job.first.name;
      family.series.push_back({std::move(labels), value});
    };
    tell(job.second, add);
    if (family.series.size() >= kPart) hand_over();
  }
  hand_over();
}

void JobMetrics::read_states(const Jobs& jobs, const TakePart& take) {
  const auto each = [&](SeriesFamily family, const TellSeries& tell) {
    read_family(jobs, std::move(family), take, tell);
  };
  each(
      {"gnnjob_info", "Always 1, for each GNNJob that is shown.", Type::Gauge, {}},
      [](const Shown& job, const AddSeries& add) {
        if (!job.task.empty()) add({{"task", job.task}, {"model", job.model}}, 1);
      }
  );
  each(
      {"gnnjob_condition", "Conditions of a GNNJob.", Type::Gauge, {}},
      [](const Shown& job, const AddSeries& add) {
        for (const auto& [type, status] : job.conditions) {
          for (const char* value : {"True", "False", "Unknown"}) {
            add({{"condition", type}, {"status", value}}, status == value ? 1.0 : 0.0);
          }
        }
      }
  );
  each(
      {"gnnjob_nodes", "Nodes (pods) of a GNNJob by state.", Type::Gauge, {}},
      [](const Shown& job, const AddSeries& add) {
        add({{"state", "desired"}}, static_cast<double>(job.nodes.desired));
        add({{"state", "ready"}}, static_cast<double>(job.nodes.ready));
        add({{"state", "succeeded"}}, static_cast<double>(job.nodes.succeeded));
        add({{"state", "failed"}}, static_cast<double>(job.nodes.failed));
      }
  );
  each(
      {"gnnjob_servers", "Sampling servers of a GNNJob by state.", Type::Gauge, {}},
      [](const Shown& job, const AddSeries& add) {
        if (!job.servers) return;
        add({{"state", "desired"}}, static_cast<double>(job.servers->desired));
        add({{"state", "ready"}}, static_cast<double>(job.servers->ready));
      }
  );
  each(
      {"gnnjob_gpus", "GPUs that the workers of a GNNJob ask for.", Type::Gauge, {}},
      [](const Shown& job, const AddSeries& add) {
        if (job.gpus == 0) return;
        add({{"state", "requested"}}, static_cast<double>(job.gpus));
        add({{"state", "idle"}}, job.gpus_idle ? static_cast<double>(job.gpus) : 0.0);
      }
  );
  each(
      {"gnnjob_server_restarts_total",
       "Pods of sampling servers that replaced lost ones.",
       Type::Counter,
       {}},
      [](const Shown& job, const AddSeries& add) {
        if (job.servers) add({}, static_cast<double>(job.servers->restarts));
      }
  );
  each(
      {"gnnjob_restarts_total",
       "Restarts that count against maxRestarts, by reason.",
       Type::Counter,
       {}},
      [](const Shown& job, const AddSeries& add) {
        for (const auto& [reason, count] : job.restarts) {
          add({{"reason", reason}}, static_cast<double>(count));
        }
      }
  );
}

void JobMetrics::read_progress(const Jobs& jobs, const TakePart& take) {
  // Of jobs that train, and what they have told.
  const auto each = [&](const char* name, const char* help, const auto& value_of) {
    read_family(
        jobs,
        {name, help, Type::Gauge, {}},
        take,
        [&](const Shown& job, const AddSeries& add) {
          if (!job.progress) return;
          if (const std::optional<double> value = value_of(*job.progress)) add({}, *value);
        }
    );
  };
  using Progress = api::JobProgress;
  each("gnnjob_epoch", "Current epoch, from 1.", [](const Progress& of) {
    return number(of.epoch);
  });
  each("gnnjob_epochs", "Epochs in total.", [](const Progress& of) { return number(of.epochs); });
  each("gnnjob_loss", "Mean loss of the last epoch.", [](const Progress& of) {
    return number(of.loss);
  });
  each("gnnjob_rate", "Seeds (or graphs) per second, over all ranks.", [](const Progress& of) {
    return number(of.rate);
  });
  read_family(
      jobs,
      {"gnnjob_metric", "The task's metric, by split.", Type::Gauge, {}},
      take,
      [](const Shown& job, const AddSeries& add) {
        if (!job.progress) return;
        const auto of_split = [&](const char* split, const std::optional<std::string>& text) {
          const auto value = number(text);
          if (value) add({{"metric", job.metric}, {"split", split}}, *value);
        };
        of_split("train", job.progress->train_metric);
        of_split("validation", job.progress->validation_metric);
        of_split("test", job.progress->test_metric);
      }
  );
}

void JobMetrics::count_change(const api::GnnJob& job, const api::GnnJobStatus& after) {
  const api::GnnJobStatus& before = job.status;
  count_restarts(job, after);
  const auto turned_true = [&](std::string_view type) -> const api::Condition* {
    return is_true(after, type) && !is_true(before, type) ? find_condition(after, type) : nullptr;
  };
  // Once, and without the time that preparing the data takes.
  if (const api::Condition* scheduled = turned_true(condition::kScheduled);
      scheduled != nullptr && job.metadata.creation_timestamp && after.attempt <= 1 &&
      after.replaced_nodes.empty() && !is_true(after, condition::kPrepared)) {
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
  if (in_place <= 0) return;
  auto jobs = jobs_.lock();
  std::map<std::string, int64_t>& restarts = (*jobs)[key_of(job)].restarts;
  if (charges_attempt(job.status, after)) {
    ++restarts[after.failures.back().reason];
    --in_place;
  }
  // Agents report how often they restarted ranks, not why.
  if (in_place > 0) restarts[std::string(reconcile::kRestartedInPlace)] += in_place;
}

void JobMetrics::remove(const std::string& namespace_, const std::string& name) {
  jobs_.lock()->erase({namespace_, name});
}

}  // namespace gnn::app
