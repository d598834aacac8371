#pragma once

#include "common/out_of_memory.h"
#include "common/result.h"
#include "common/stopwatch.h"
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

namespace gnn {

/// How long an ordered prefetcher's reader and producers waited.
struct PrefetchStalls {
  double reader_stall_seconds = 0;  ///< for the next item: production is the bottleneck
  /// For room, summed over producers: the reader is the bottleneck.
  double producer_stall_seconds = 0;
};

/// Makes items begin..end-1 on several threads and returns them in order. At most `window` items
/// are in production or waiting for the reader. An error or exception of item i is returned in
/// place of item i, after all items before it, and ends production. Waiting threads sleep.
/// Threads: one reader at a time.
template <class T>
class OrderedPrefetcher {
 public:
  using Produce = std::function<Result<T>(int64_t index)>;
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };

  /// Occupies all threads of `pool`, which outlives this, until the last item is made or stop() is
  /// called. `window` > 0.
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

  /// The next item, or std::nullopt after the last.
  /// Errors: that of the item (again on each later call); Cancelled after stop().
  Result<std::optional<T>> next() {
    std::unique_lock lock(mutex_);
    if (failure_) return tl::unexpected<Error>(*failure_);
    if (next_to_read_ == end_) return std::optional<T>();
    std::optional<Result<T>>& slot = slot_of(next_to_read_);
    const auto start = std::chrono::steady_clock::now();
    made_.wait(lock, [&] { return stopped_ || slot.has_value(); });
    stalls_.reader_stall_seconds += seconds_since(start);
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

  /// Ends production and waits until all threads of the pool are free. May be called again.
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
      stalls_.producer_stall_seconds += seconds_since(start);
      if (stopped_ || broken_ || next_to_make_ == end_) return;
      const int64_t index = next_to_make_++;
      // Nothing is left to wait for: wake the other producers so that they return.
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
  // Guards all below but workers_. No Guarded: reader and producers wait on conditions of their own,
  // so that an item wakes the reader alone, and a free slot one producer.
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

}  // namespace gnn
