#include "controller/reconcile/progress_turns.h"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace gnn::reconcile {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(1000 / ProgressTurns::kWritesPerSecond);
// A worker may not have come to the oldest job at once. If it is later than this, one of the next goes.
constexpr Duration kLateness = std::chrono::milliseconds(50);
constexpr size_t kNearest = 5;
constexpr Duration kPatience = std::chrono::seconds(5);

}  // namespace

std::optional<Duration> ProgressTurns::ask(
    const std::string& job, std::optional<TimePoint> written, MonotonicPoint now
) {
  forget_lost(now);
  erase(job);
  const TimePoint since = written.value_or(TimePoint::min());
  oldest_first_.insert({since, job});
  const auto older =
      static_cast<size_t>(std::distance(oldest_first_.begin(), oldest_first_.find({since, job})));
  const Duration later = older == 0 ? Duration::zero() : kLateness;
  const Duration pause =
      next_ ? std::max(*next_ + later - now, Duration::zero()) : Duration::zero();
  if (older < kNearest && pause == Duration::zero()) {
    oldest_first_.erase({since, job});
    next_ = now + kPause;
    return std::nullopt;
  }
  const Duration wait =
      std::max<Duration>(pause + kPause * static_cast<int64_t>(older), kPause / 4);
  const MonotonicPoint until = now + wait + kPatience;
  claims_[job] = {.written = since, .until = until};
  soonest_lost_.insert({until, job});
  return wait;
}

void ProgressTurns::forget_lost(MonotonicPoint now) {
  while (!soonest_lost_.empty() && soonest_lost_.begin()->first < now) {
    erase(std::string(soonest_lost_.begin()->second));
  }
}

void ProgressTurns::erase(const std::string& job) {
  const auto found = claims_.find(job);
  if (found == claims_.end()) return;
  oldest_first_.erase({found->second.written, job});
  soonest_lost_.erase({found->second.until, job});
  claims_.erase(found);
}

}  // namespace gnn::reconcile
