#pragma once

#include "common/clock.h"

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace gnn::reconcile {

/// Whose progress may be written next. All jobs together have a number of status writes per second
/// for changes of progress alone; where that is too little, the jobs whose last write is the oldest
/// come first. Pure: time is an argument.
/// Threads: one at a time.
class ProgressTurns {
 public:
  static constexpr int kWritesPerSecond = 5;

  /// A job has news of its progress, and its status was last written at `written`. Nothing: it may
  /// write now. Otherwise it is to ask again after the time that is returned; one that does not is
  /// forgotten.
  [[nodiscard]] std::optional<Duration> ask(
      const std::string& job, std::optional<TimePoint> written, MonotonicPoint now
  );

  /// Jobs that wait for their turn.
  [[nodiscard]] size_t waiting() const { return claims_.size(); }

 private:
  struct Claim {
    TimePoint written;
    MonotonicPoint until;  ///< when it is forgotten
  };

  void forget_lost(MonotonicPoint now);
  void erase(const std::string& job);

  std::map<std::string, Claim> claims_;
  std::set<std::pair<TimePoint, std::string>> oldest_first_;
  std::set<std::pair<MonotonicPoint, std::string>> soonest_lost_;
  std::optional<MonotonicPoint> next_;  ///< before it nobody may write
};

}  // namespace gnn::reconcile
