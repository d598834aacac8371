#pragma once

#include "common/clock.h"
#include "common/metrics.h"
#include "controller/runtime/fair_line.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <limits>
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

/// How the owners of keys share a queue.
template <class K>
struct QueueSharing {
  /// The owners take turns. By default, all keys have the same.
  std::function<std::string(const K&)> owner_of = [](const K&) { return std::string(); };
  /// The most keys of one owner that are worked on at the same time.
  size_t share = std::numeric_limits<size_t>::max();
  /// The most keys of all owners that are worked on at the same time.
  size_t places = std::numeric_limits<size_t>::max();
};

/// A queue of keys, in which owners take turns and the keys of each are first in, first out. A key
/// that is added while it waits is queued once; one that is added while it is worked on comes again
/// afterwards. No key is worked on twice at the same time.
/// Threads: every method may be called from any thread.
template <class K>
class WorkQueue {
 public:
  WorkQueue(Clock& clock, WorkQueueMetrics metrics, QueueSharing<K> sharing = {})
      : clock_(clock),
        metrics_(std::move(metrics)),
        owner_of_(std::move(sharing.owner_of)),
        ready_(sharing.share, sharing.places) {}

  /// Work begins. Keys may wait before, as long as another process has the work: the metrics count
  /// from now on.
  void begin() {
    const std::lock_guard lock(mutex_);
    if (begun_) return;
    begun_ = true;
    const MonotonicPoint now = clock_.monotonic();
    for (auto& [key, since] : added_) since = now;
    metrics_.adds.increment(static_cast<double>(dirty_.size()));
    show_depth_locked();
  }

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
      if (ready_.ready()) break;
      const auto something = [this] {
        return shut_down_ || ready_.ready() ||
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
    K key = std::move(ready_.take()->item);
    const MonotonicPoint now = clock_.monotonic();
    last_get_ = now;
    show_depth_locked();
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
    const std::string owner = owner_of_(key);
    note_if_slowed_locked(owner);
    ready_.done(owner);
    if (dirty_.contains(key)) push_locked(key);
    // Another key of the same owner may have waited for this.
    if (ready_.ready()) changed_.notify_one();
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

  /// How many turns pass at most before a new key of this one's owner has its own.
  [[nodiscard]] size_t turns_before(const K& key) const {
    const std::lock_guard lock(mutex_);
    return ready_.turns_before(owner_of_(key));
  }

  /// The owners whose keys wait because their share is worked on already.
  [[nodiscard]] std::set<std::string> held_back() const {
    const std::lock_guard lock(mutex_);
    return ready_.held_back();
  }

  /// Whether, in the last five minutes, a key of this one's owner waited for ten seconds or more although
  /// others had their turns, because the owner's share was worked on already.
  [[nodiscard]] bool was_held_back(const K& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = slowed_.find(owner_of_(key));
    return found != slowed_.end() && clock_.monotonic() - found->second < kSlowedFor;
  }

  /// Whether a key has waited for `patience` although nobody came for one: all who work are stuck.
  /// Not before the first get(). A key that waits because its owner holds its share does not count.
  [[nodiscard]] bool stands_still(Duration patience) const {
    const std::lock_guard lock(mutex_);
    if (!last_get_ || !ready_.ready() || shut_down_) return false;
    return clock_.monotonic() - std::max(*last_get_, added_.at(ready_.next())) > patience;
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
  static constexpr Duration kLongWait = std::chrono::seconds(10);
  static constexpr Duration kSlowedFor = std::chrono::minutes(5);

  // Before the owner gives something back.
  void note_if_slowed_locked(const std::string& owner) {
    const K* const first = ready_.first_of(owner);
    if (first == nullptr || !ready_.holds_share(owner)) return;
    const MonotonicPoint now = clock_.monotonic();
    if (now - added_.at(*first) < kLongWait) return;
    std::erase_if(slowed_, [now](const auto& each) { return now - each.second >= kSlowedFor; });
    slowed_[owner] = now;
  }

  void add_locked(const K& key) {
    if (shut_down_ || !dirty_.insert(key).second) return;
    if (begun_) metrics_.adds.increment();
    if (!processing_.contains(key))
      push_locked(key);
    else
      added_.emplace(key, clock_.monotonic());
  }

  void push_locked(const K& key) {
    added_.emplace(key, clock_.monotonic());
    ready_.push(owner_of_(key), key);
    show_depth_locked();
    changed_.notify_one();
  }

  void show_depth_locked() {
    if (begun_) metrics_.depth.set(static_cast<double>(ready_.size()));
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
  const std::function<std::string(const K&)> owner_of_;
  // A mutex rather than Guarded: get() waits for what both the queue and the clock say. It guards
  // all that follows.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  FairLine<K> ready_;
  std::set<K> dirty_;                       // waiting in ready_, or to come again after processing_
  std::map<K, MonotonicPoint> added_;       // when a dirty key was added
  std::map<K, MonotonicPoint> processing_;  // since when
  std::map<std::string, MonotonicPoint> slowed_;  // when an owner last waited long for its share
  std::map<K, MonotonicPoint> delayed_;
  std::set<std::pair<MonotonicPoint, K>> due_;
  std::optional<MonotonicPoint> last_get_;  // when somebody last came for a key, or got one
  bool begun_ = false;
  bool shut_down_ = false;
};

}  // namespace gnn::runtime
