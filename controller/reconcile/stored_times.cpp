#include "controller/reconcile/stored_times.h"

#include "controller/reconcile/conditions.h"

#include <algorithm>
#include <chrono>

namespace gnn::reconcile {
namespace {

using std::chrono::seconds;

// Stored times are whole seconds, some of them the next one.
constexpr Duration kRounding = seconds(1);
// Back-offs may have a floor above what the job says.
constexpr Duration kShortestBound = seconds(30);

TimePoint this_second(const Pass& pass) {
  return std::chrono::floor<seconds>(pass.in.now);
}

bool lies_ahead(const Pass& pass, TimePoint time, Duration at_most = Duration::zero()) {
  return time > latest_now(pass.in) + at_most + kRounding;
}

void cut_wait(const Pass& pass, std::optional<TimePoint>& until, Duration longest) {
  if (until && lies_ahead(pass, *until, longest)) until = this_second(pass) + longest;
}

}  // namespace

void cut_stored_times(Pass& pass) {
  api::GnnJobStatus& status = pass.status();
  const Duration backoff = std::max<Duration>(
      seconds(pass.job().spec.run_policy.failure_policy.backoff.max_seconds), kShortestBound
  );
  const Duration release = pass.in.config.release_backoff_cap * 3 / 2;
  const bool released = has_reason(status, condition::kScheduled, reason::kReleased);
  cut_wait(pass, status.next_attempt_time, released ? release : backoff);
  if (status.servers) {
    const Duration longest = std::max(backoff, pass.in.config.server_end_patience);
    for (api::ServerRecord& each : status.servers->pods) cut_wait(pass, each.next_time, longest);
  }
  if (status.start_time && lies_ahead(pass, *status.start_time)) {
    status.start_time = this_second(pass);
  }
  for (api::Condition& each : status.conditions) {
    if (lies_ahead(pass, each.last_transition_time)) each.last_transition_time = pass.in.now;
  }
}

void cut_completion_time(Pass& pass) {
  auto& completion = pass.status().completion_time;
  if (completion && lies_ahead(pass, *completion)) completion = this_second(pass);
}

}  // namespace gnn::reconcile
