#pragma once

#include "common/clock.h"
#include "common/metrics.h"
#include "common/random.h"
#include "controller/objects/meta.h"
#include "controller/runtime/key_backoff.h"
#include "controller/runtime/work_queue.h"

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace gnn::runtime {

/// Nothing more to do until something changes.
struct Done {};
/// Come again by then, though nothing failed.
struct RequeueAfter {
  Duration delay{0};
};
/// Failed, and may succeed later: the loop chooses when, but not before `at_least`.
struct Retry {
  std::string error;
  std::optional<Duration> at_least;
};
using Outcome = std::variant<Done, RequeueAfter, Retry>;

struct ControllerLoopOptions {
  std::string name;
  int64_t workers = 4;
  BackoffOptions backoff{
      .initial = std::chrono::milliseconds(5),
      .factor = 2.0,
      .cap = std::chrono::seconds(60),
      .jitter = 0.1
  };
  /// A pass may take minutes: it creates a thousand pods while the API server is slow.
  Duration longest_pass = std::chrono::minutes(15);
};

/// Threads that take keys from a queue, reconcile each and put it back as the outcome says. An
/// exception out of the reconciler counts as a panic and retries that key alone. Namespaces take
/// turns, and none holds more than three quarters of the threads: however long the API server makes
/// the passes of one last, the others go on.
class ControllerLoop {
 public:
  using Reconcile = std::function<Outcome(const objects::ObjectKey&)>;

  ControllerLoop(
      ControllerLoopOptions options,
      Clock& clock,
      RandomSource& random,
      MetricsRegistry& metrics,
      Reconcile reconcile
  );
  ~ControllerLoop();
  ControllerLoop(const ControllerLoop&) = delete;
  ControllerLoop& operator=(const ControllerLoop&) = delete;

  [[nodiscard]] WorkQueue<objects::ObjectKey>& queue() { return queue_; }
  [[nodiscard]] const WorkQueue<objects::ObjectKey>& queue() const { return queue_; }

  void start();
  /// Lets the reconciles that run come to their end and joins; what still waits is left.
  void stop();
  /// Whether a key waits and all workers have been busy with theirs for much too long.
  [[nodiscard]] bool stands_still() const { return queue_.stands_still(options_.longest_pass); }

 private:
  void work();
  [[nodiscard]] Outcome reconcile_once(const objects::ObjectKey& key);
  void requeue(const objects::ObjectKey& key, const Outcome& outcome);
  void count(const std::string& result, double by = 1);

  const ControllerLoopOptions options_;
  Clock& clock_;
  RandomSource& random_;
  MetricsRegistry& metrics_;
  const Reconcile reconcile_;
  WorkQueue<objects::ObjectKey> queue_;
  KeyBackoff<objects::ObjectKey> backoff_;
  Counter errors_;
  Counter panics_;
  Histogram time_;
  Gauge active_;
  std::vector<std::thread> threads_;
};

}  // namespace gnn::runtime
