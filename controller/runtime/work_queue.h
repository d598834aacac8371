#pragma once

#include "common/clock.h"
#include "common/metrics.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace gnn::runtime {

/// The workqueue_* series of one queue, under the names that stock dashboards know.
struct WorkQueueMetrics {
  WorkQueueMetrics(MetricsRegistry& registry, const std::string& name);

  Gauge depth;
  Counter adds;
  Counter retries;
  Histogram queue_duration;
  Histogram work_duration;
  Gauge unfinished_work;
  Gauge longest_running;
};

/// A first-in first-out queue of keys. A key that is added while it waits is queued once; one that
/// is added while it is worked on comes again afterwards. No key is worked on twice at the same
/// time.
/// Threads: every method may be called from any thread.
template <class K>
class WorkQueue {
 public:
  WorkQueue(Clock& clock, WorkQueueMetrics metrics) : clock_(clock), metrics_(std::move(metrics)) {}

  void add(const K& key) {
    const std::lock_guard lock(mutex_);
    add_locked(key);
  }

  /// The key comes no later than after `delay`; an earlier time that was requested before stays.
  void add_after(const K& key, Duration delay) {
    const std::lock_guard lock(mutex_);
    if (shut_down_) return;
    if (delay <= Duration::zero()) return add_locked(key);
    const MonotonicPoint due = clock_.monotonic() + delay;
    const auto known = delayed_.find(key);
    if (known != delayed_.end()) {
      if (known->second <= due) return;
      due_.erase({known->second, key});
    }
    delayed_[key] = due;
    due_.insert({due, key});
    changed_.notify_one();
  }

  /// As add_after(), for a key whose work failed.
  void retry_after(const K& key, Duration delay) {
    metrics_.retries.increment();
    add_after(key, delay);
  }

  /// Waits for a key, for which the caller must call done(). Nothing: the queue is shut down.
  [[nodiscard]] std::optional<K> get() {
    std::unique_lock lock(mutex_);
    last_get_ = clock_.monotonic();
    while (true) {
      if (shut_down_) return std::nullopt;
      release_due_locked();
      if (!ready_.empty()) break;
      const auto something = [this] {
        return shut_down_ || !ready_.empty() ||
               (!due_.empty() && due_.begin()->first <= clock_.monotonic());
      };
      if (due_.empty()) {
        changed_.wait(lock, [&] { return something() || !due_.empty(); });
      } else {
        const MonotonicPoint next = due_.begin()->first;
        clock_.wait_until(lock, changed_, next, [&] {
          return something() || due_.empty() || due_.begin()->first < next;
        });
      }
    }
    K key = std::move(ready_.front());
    ready_.pop_front();
    const MonotonicPoint now = clock_.monotonic();
    last_get_ = now;
    metrics_.depth.set(static_cast<double>(ready_.size()));
    metrics_.queue_duration.observe(std::chrono::duration<double>(now - added_[key]).count());
    added_.erase(key);
    dirty_.erase(key);
    processing_[key] = now;
    return key;
  }

  void done(const K& key) {
    const std::lock_guard lock(mutex_);
    const auto started = processing_.find(key);
    if (started == processing_.end()) return;
    const std::chrono::duration<double> took = clock_.monotonic() - started->second;
    metrics_.work_duration.observe(took.count());
    processing_.erase(started);
    if (dirty_.contains(key)) push_locked(key);
  }

  /// From now on get() returns nothing, and nothing is added.
  void shut_down() {
    const std::lock_guard lock(mutex_);
    shut_down_ = true;
    changed_.notify_all();
  }

  [[nodiscard]] size_t size() const {
    const std::lock_guard lock(mutex_);
    return ready_.size();
  }

  /// Keys that wait, are worked on, or come again at some time.
  [[nodiscard]] size_t known() const {
    const std::lock_guard lock(mutex_);
    return ready_.size() + processing_.size() + delayed_.size();
  }

  /// Whether a key has waited for `patience` although nobody came for one: all who work are stuck.
  /// Not before the first get().
  [[nodiscard]] bool stands_still(Duration patience) const {
    const std::lock_guard lock(mutex_);
    if (!last_get_ || ready_.empty() || shut_down_) return false;
    return clock_.monotonic() - std::max(*last_get_, added_.at(ready_.front())) > patience;
  }

  /// Updates the gauges that change with time.
  void update_metrics() {
    const std::lock_guard lock(mutex_);
    double sum = 0;
    double longest = 0;
    const MonotonicPoint now = clock_.monotonic();
    for (const auto& [key, started] : processing_) {
      const double seconds = std::chrono::duration<double>(now - started).count();
      sum += seconds;
      longest = std::max(longest, seconds);
    }
    metrics_.unfinished_work.set(sum);
    metrics_.longest_running.set(longest);
  }

 private:
  void add_locked(const K& key) {
    if (shut_down_ || !dirty_.insert(key).second) return;
    metrics_.adds.increment();
    if (!processing_.contains(key))
      push_locked(key);
    else
      added_.emplace(key, clock_.monotonic());
  }

  void push_locked(const K& key) {
    added_.emplace(key, clock_.monotonic());
    ready_.push_back(key);
    metrics_.depth.set(static_cast<double>(ready_.size()));
    changed_.notify_one();
  }

  void release_due_locked() {
    const MonotonicPoint now = clock_.monotonic();
    while (!due_.empty() && due_.begin()->first <= now) {
      const K key = due_.begin()->second;
      due_.erase(due_.begin());
      delayed_.erase(key);
      add_locked(key);
    }
  }

  Clock& clock_;
  WorkQueueMetrics metrics_;
  // A mutex rather than Guarded: get() waits for what both the queue and the clock say. It guards
  // all that follows.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<K> ready_;
  std::set<K> dirty_;                       // waiting in ready_, or to come again after processing_
  std::map<K, MonotonicPoint> added_;       // when a dirty key was added
  std::map<K, MonotonicPoint> processing_;  // since when
  std::map<K, MonotonicPoint> delayed_;
  std::set<std::pair<MonotonicPoint, K>> due_;
  std::optional<MonotonicPoint> last_get_;  // when somebody last came for a key, or got one
  bool shut_down_ = false;
};

}  // namespace gnn::runtime
