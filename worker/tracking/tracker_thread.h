#pragma once

#include "common/backoff.h"
#include "common/clock.h"
#include "common/random.h"
#include "common/result.h"
#include "worker/progress/tracking_data.h"
#include "worker/tracking/tracker.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace gnn::tracking {

struct TrackerThreadOptions {
  size_t capacity = 4096;  ///< records that wait
  Duration call_time = std::chrono::seconds(3);
  /// How long join() waits beyond deadlines, for calls that keep them.
  Duration grace = std::chrono::milliseconds(500);
  BackoffOptions backoff{
      .initial = std::chrono::milliseconds(500), .cap = std::chrono::seconds(30), .jitter = 0.5
  };
};

/// Tells a tracker on a thread of its own, so that training never waits for it. Records beyond the
/// queue's room are dropped and counted, and so are those that the tracker refuses. What fails first
/// is logged, the rest is only counted.
/// Threads: counts() and name() from any, the rest from one.
class TrackerThread {
 public:
  using Open = std::function<Result<std::unique_ptr<Tracker>>()>;

  /// `open` runs on the thread. It and the tracker own all that they use: a call that the system does
  /// not end, on a volume or to a name server that is dead, is left alone with them.
  TrackerThread(
      std::string_view name,
      Open open,
      TrackerThreadOptions options,
      std::shared_ptr<Clock> clock,
      std::shared_ptr<RandomSource> random
  );
  /// As finish(RunEnd::Failed, 0 s), unless that was called, and join().
  ~TrackerThread();
  TrackerThread(const TrackerThread&) = delete;
  TrackerThread& operator=(const TrackerThread&) = delete;

  /// Waits until the tracker is open, for about `limit`. One that opens later is told what waits until
  /// then.
  /// Errors: those of `open`; Timeout.
  [[nodiscard]] Status await_open(Duration limit);
  /// Does not wait.
  void add(const Record& record);
  /// Has the tracker told what waits, and the end, within `limit`. A tracker that does not answer gets
  /// no further call. Does not wait.
  void finish(RunEnd end, Duration limit);
  /// Waits for that, and for a call that is under way: for the longer of finish()'s limit and
  /// `call_time`, and `grace`. What is not told by then counts as dropped.
  void join();
  [[nodiscard]] progress::TrackerCounts counts() const;
  [[nodiscard]] std::string_view name() const { return name_; }

 private:
  struct State;
  class Teller;

  void log_failure() const;

  std::string name_;
  TrackerThreadOptions options_;
  std::shared_ptr<Clock> clock_;
  std::shared_ptr<Teller> teller_;
  std::thread thread_;
};

}  // namespace gnn::tracking
