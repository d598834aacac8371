#pragma once

#include "common/backoff.h"
#include "common/clock.h"
#include "common/guarded.h"
#include "common/random.h"
#include "common/result.h"
#include "worker/progress/tracking_data.h"
#include "worker/tracking/tracker.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

namespace gnn::tracking {

struct TrackerThreadOptions {
  size_t capacity = 4096;  ///< records that wait
  Duration call_time = std::chrono::seconds(3);
  BackoffOptions backoff{
      .initial = std::chrono::milliseconds(500), .cap = std::chrono::seconds(30), .jitter = 0.5
  };
};

/// Tells a tracker on a thread of its own, so that training never waits for it. Records beyond the
/// queue's room are dropped and counted, and so are those that the tracker refuses. What fails first
/// is logged, the rest is only counted.
/// Threads: add() and close() from one thread, counts() from any.
class TrackerThread {
 public:
  /// `clock` and `random` outlive it.
  TrackerThread(
      std::unique_ptr<Tracker> tracker,
      TrackerThreadOptions options,
      Clock& clock,
      RandomSource& random
  );
  /// As close(RunEnd::Failed, 0 s), unless it is closed.
  ~TrackerThread();
  TrackerThread(const TrackerThread&) = delete;
  TrackerThread& operator=(const TrackerThread&) = delete;

  /// Does not wait.
  void add(const Record& record);
  /// Waits until the tracker has all records and knows the end, for about `limit`, and for a call that
  /// is under way. A tracker that does not answer gets no further call.
  void close(RunEnd end, Duration limit);
  [[nodiscard]] progress::TrackerCounts counts() const { return *counts_.lock(); }
  [[nodiscard]] std::string_view name() const { return tracker_->name(); }

 private:
  struct State {
    std::deque<Record> queue{};
    bool closing = false;
    RunEnd end = RunEnd::Failed;
    MonotonicPoint deadline = MonotonicPoint::max();
  };

  void run();
  // Nothing once all is told.
  [[nodiscard]] std::vector<Record> next_batch();
  [[nodiscard]] MonotonicPoint call_deadline();
  void wait_after_failure();
  void deliver(std::vector<Record>& batch);
  void note_failure(const Error& error);
  void drop(size_t records);
  void end();

  std::unique_ptr<Tracker> tracker_;
  TrackerThreadOptions options_;
  Clock& clock_;
  RandomSource& random_;
  Backoff backoff_;       // the thread's
  bool gave_up_ = false;  // the thread's: the tracker does not answer, and there is no time left
  Guarded<State> state_;
  mutable Guarded<progress::TrackerCounts> counts_;
  std::thread thread_;
};

}  // namespace gnn::tracking
