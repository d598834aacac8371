#pragma once

#include "common/out_of_memory.h"
#include "common/result.h"
#include "common/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::training {

/// Where an ordered prefetcher's threads and its reader waited.
struct PrefetchStalls {
  double reader_seconds =
      0;  ///< The reader waited for the next item: production is the bottleneck.
  double producer_seconds =
      0;  ///< Producers, summed, waited for room: the reader is the bottleneck.
};

/// Makes items begin..end-1 on several threads and hands them out in order. At most `window` items
/// are made or under way beyond those handed out. An error or exception of item i is handed out in
/// place of item i, after all items before it, and ends the production. Waiting threads sleep. One
/// reader at a time.
template <class T>
class OrderedPrefetcher {
 public:
  using Produce = std::function<Result<T>(int64_t index)>;
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };

  /// Occupies all threads of `pool` until the last item is made or stop() is called. `window` > 0;
  /// `pool` outlives this.
  OrderedPrefetcher(ThreadPool& pool, Range range, int64_t window, Produce produce)
      : produce_(std::move(produce)),
        end_(range.end),
        next_to_make_(range.begin),
        next_to_read_(range.begin),
        slots_(static_cast<size_t>(window)) {
    for (size_t i = 0; i < pool.num_threads(); ++i)
      workers_.push_back(pool.submit([this] { work(); }));
  }
  ~OrderedPrefetcher() { stop(); }
  OrderedPrefetcher(const OrderedPrefetcher&) = delete;
  OrderedPrefetcher& operator=(const OrderedPrefetcher&) = delete;

  /// The next item, or std::nullopt after the last. Errors: that of the item (again on each later
  /// call); Cancelled after stop().
  Result<std::optional<T>> next() {
    std::unique_lock lock(mutex_);
    if (failure_) return tl::unexpected<Error>(*failure_);
    if (next_to_read_ == end_) return std::optional<T>();
    std::optional<Result<T>>& slot = slot_of(next_to_read_);
    const auto start = std::chrono::steady_clock::now();
    made_.wait(lock, [&] { return stopped_ || slot.has_value(); });
    stalls_.reader_seconds += seconds_since(start);
    if (!slot.has_value()) return fail(ErrorKind::Cancelled, "the loader was stopped");
    Result<T> item = std::move(*slot);
    slot.reset();
    ++next_to_read_;
    if (!item) failure_ = item.error();
    lock.unlock();
    room_.notify_one();
    if (!item) return tl::unexpected<Error>(std::move(item).error());
    return std::optional<T>(std::move(*item));
  }

  /// Ends production: returns when no thread of the pool works for this prefetcher any more. Safe
  /// to call again.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    room_.notify_all();
    made_.notify_all();
    for (std::future<void>& worker : workers_) worker.wait();
  }

  [[nodiscard]] PrefetchStalls stalls() const {
    const std::lock_guard lock(mutex_);
    return stalls_;
  }

 private:
  using Instant = std::chrono::steady_clock::time_point;

  static double seconds_since(Instant start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  std::optional<Result<T>>& slot_of(int64_t index) {
    return slots_[static_cast<size_t>(index % static_cast<int64_t>(slots_.size()))];
  }

  Result<T> make(int64_t index) const {
    try {
      return produce_(index);
    } catch (const std::exception& error) {
      return fail(
          is_out_of_memory(error) ? ErrorKind::OutOfMemory : ErrorKind::Internal,
          "batch " + std::to_string(index) + ": " + error.what()
      );
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      const auto start = std::chrono::steady_clock::now();
      room_.wait(lock, [this] {
        return stopped_ || broken_ || next_to_make_ == end_ ||
               next_to_make_ < next_to_read_ + static_cast<int64_t>(slots_.size());
      });
      stalls_.producer_seconds += seconds_since(start);
      if (stopped_ || broken_ || next_to_make_ == end_) return;
      const int64_t index = next_to_make_++;
      // Producers at the end of the range wait for nothing: let them see it.
      if (next_to_make_ == end_) room_.notify_all();
      lock.unlock();
      Result<T> item = make(index);
      lock.lock();
      if (!item) {
        broken_ = true;
        room_.notify_all();
      }
      slot_of(index).emplace(std::move(item));
      made_.notify_one();
    }
  }

  const Produce produce_;
  const int64_t end_;
  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable made_;
  int64_t next_to_make_;
  int64_t next_to_read_;
  bool stopped_ = false;
  bool broken_ = false;  // an item failed: nothing new is started
  std::optional<Error> failure_;
  std::vector<std::optional<Result<T>>> slots_;
  PrefetchStalls stalls_;
  std::vector<std::future<void>> workers_;
};

}  // namespace gnn::training
