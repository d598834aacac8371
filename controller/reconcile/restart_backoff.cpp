#include "controller/reconcile/restart_backoff.h"

#include "common/rfc3339.h"
#include "controller/reconcile/conditions.h"
#include "controller/reconcile/doubling.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace gnn::reconcile {

using std::chrono::seconds;

bool has_run_well(const Pass& pass) {
  const api::Condition* running = find_condition(pass.status(), condition::kRunning);
  if (running == nullptr || running->status != "True") return false;
  const int64_t healthy = pass.job().spec.run_policy.failure_policy.backoff.healthy_seconds;
  return pass.in.now >= running->last_transition_time + seconds(healthy);
}

void forget_failures(Pass& pass) {
  pass.status().backoff = {};
  pass.status().machines.clear();
  pass.status().out_of_memory = 0;
  pass.status().storage_exceeded = 0;
}

std::optional<TimePoint> restart_floor(const Pass& pass) {
  const OperatorConfig& config = pass.in.config;
  const std::vector<api::FailureRecord>& records = pass.status().failures;
  if (std::cmp_less(records.size(), config.restarts_at_once)) return std::nullopt;
  const auto first = records.end() - config.restarts_at_once;
  if (pass.in.now - first->time > config.restart_window) return std::nullopt;
  // A clock that was ahead when the failure was recorded holds nothing up for longer.
  return std::min<TimePoint>(records.back().time, pass.in.now) + config.restart_floor;
}

void back_off(Pass& pass, bool charged) {
  api::GnnJobStatus& status = pass.status();
  int64_t& streak = charged ? status.backoff.charged : status.backoff.free;
  ++streak;
  status.next_attempt_time.reset();
  std::optional<TimePoint> next = restart_floor(pass);
  if (streak > 1) {
    const api::BackoffPolicy& policy = pass.job().spec.run_policy.failure_policy.backoff;
    const TimePoint wanted =
        pass.in.now +
        doubled(seconds(policy.initial_seconds), streak - 2, seconds(policy.max_seconds));
    next = std::max(next.value_or(wanted), wanted);
  }
  if (next) status.next_attempt_time = std::chrono::ceil<seconds>(*next);
}

std::string backoff_message(const Pass& pass) {
  const api::GnnJobStatus& status = pass.status();
  const std::string what =
      status.replaced_nodes.empty()
          ? "Attempt " + std::to_string(status.attempt) + " starts at "
          : "Node " + std::to_string(status.replaced_nodes.back()) + " gets its new pod at ";
  return what + format_rfc3339(*status.next_attempt_time) +
         ", because restarts follow each other (" + std::to_string(status.backoff.charged) +
         " charged, " + std::to_string(status.backoff.free) + " free)";
}

void describe_backoff(Pass& pass) {
  if (!pass.status().next_attempt_time) return;
  pass.set(condition::kScheduled, false, reason::kBackOff, backoff_message(pass));
}

}  // namespace gnn::reconcile
