#include "controller/reconcile/pass.h"

#include "common/contract.h"
#include "controller/reconcile/conditions.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace gnn::reconcile {

void Pass::set(std::string_view type, bool holds, std::string_view why, std::string message) {
  set_condition(
      out.status,
      {.type = type, .holds = holds, .reason = why, .message = std::move(message)},
      in.job.metadata.generation,
      in.now
  );
}

const api::ProgressReport* Pass::last_report() const {
  const auto& report = in.progress;
  const bool fits = report && report->job_uid == job().metadata.uid && report->attempt == attempt &&
                    report->node == 0 && (report->phase == contract::kPhasePrepare) == preparing();
  return fits ? &*report : nullptr;
}

TimePoint Pass::awaits_culprit_since() const {
  return in.awaits_culprit_since.value_or(in.now);
}

TimePoint Pass::awaits_culprit_until() const {
  return awaits_culprit_since() + in.config.culprit_wait;
}

void Pass::requeue(Duration wait) {
  out.requeue_after = std::min(out.requeue_after.value_or(Duration::max()), wait);
}

void Pass::requeue_at(TimePoint time) {
  // What has come, but not for certain, is looked at soon: replies tell more.
  constexpr Duration kConfirmation = std::chrono::seconds(5);
  const TimePoint certain = earliest_now(in);
  const bool unconfirmed = time <= in.now && time > certain;
  requeue(
      unconfirmed ? std::min(time - certain, kConfirmation)
                  : std::max(time - in.now, Duration::zero())
  );
}

}  // namespace gnn::reconcile
