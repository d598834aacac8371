#pragma once

#include "common/channel_room.h"
#include "common/executor.h"
#include "common/out_of_memory.h"
#include "common/result.h"
#include "common/stopwatch.h"
#include "common/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
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
  /// For what others do for items under way, summed over producers.
  double reply_stall_seconds = 0;
};

/// Makes items begin..end-1 on several threads and returns them in order. At most `window` items
/// are in production or waiting for the reader. An error or exception of item i is returned in
/// place of item i, after all items before it, and ends production. Waiting threads sleep.
/// An item may wait for something without holding a thread: it hands the rest of its work to an
/// executor, and the pool's threads do other items' work meanwhile.
/// Threads: one reader at a time; taken() on any.
template <class T>
class OrderedPrefetcher {
 public:
  using Produce = std::function<Result<T>(int64_t index)>;
  using Done = std::function<void(Result<T>)>;
  /// Begins item `index` on a thread of the pool. Tasks given to `executor` run on such threads, too;
  /// `done` is called once, by any thread.
  using Start = std::function<void(int64_t index, const Executor& executor, const Done& done)>;
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };
  struct Limits {
    int64_t window = 1;     ///< items under way or waiting for the reader; > 0
    int64_t under_way = 1;  ///< items begun and not yet made; > 0
    /// Of items that are made and not yet taken; > 0. One beyond them counts as under way until
    /// others are taken; the one that is taken next never does.
    int64_t bytes = ChannelRoom::kUnbounded;
    std::function<int64_t(T& item)> bytes_of = {};  ///< where `bytes` is bounded; throws nothing
  };

  /// Occupies all threads of `pool`, which outlives this, until the last item is made or stop() is
  /// called. `window` > 0.
  OrderedPrefetcher(ThreadPool& pool, Range range, int64_t window, Produce produce)
      : OrderedPrefetcher(
            pool,
            range,
            Limits{.window = window, .under_way = static_cast<int64_t>(pool.num_threads())},
            [produce = std::move(produce)](
                int64_t index, const Executor& /*executor*/, const Done& done
            ) { done(produce(index)); }
        ) {}
  OrderedPrefetcher(ThreadPool& pool, Range range, const Limits& limits, Start start)
      : start_(std::move(start)), state_(std::make_shared<State>(range, limits)) {
    for (size_t i = 0; i < pool.num_threads(); ++i)
      workers_.push_back(pool.submit([this] { work(); }));
  }
  ~OrderedPrefetcher() { stop(); }
  OrderedPrefetcher(const OrderedPrefetcher&) = delete;
  OrderedPrefetcher& operator=(const OrderedPrefetcher&) = delete;

  /// The next item, or std::nullopt after the last.
  /// Errors: that of the item (again on each later call); Cancelled after stop().
  Result<std::optional<T>> next() {
    auto item = read_ahead();
    if (item && item->has_value()) taken();
    return item;
  }

  /// The item that next() would return, for a reader that hands items on: it counts among those that
  /// are made until taken() is called for it.
  Result<std::optional<T>> read_ahead() { return state_->read(); }

  /// The first item from read_ahead() that was not yet taken now is.
  void taken() { state_->taken(); }

  /// Ends production and waits until all threads of the pool are free. Items that wait for something
  /// are given up: what comes for them later is dropped. May be called again.
  void stop() {
    state_->stop();
    for (std::future<void>& worker : workers_) worker.wait();
  }

  [[nodiscard]] PrefetchStalls stalls() const {
    const std::lock_guard lock(state_->mutex);
    return state_->stalls;
  }

 private:
  struct Item {
    int64_t index = 0;
    bool made = false;  // guarded by State::mutex
  };
  struct Task {
    std::shared_ptr<Item> item;
    std::function<void()> run;
  };

  // Outlives the prefetcher while somebody has an executor or a `done` of it.
  struct State {
    State(Range range, const Limits& given)
        : limits(given),
          end(range.end),
          next_to_make(range.begin),
          next_to_read(range.begin),
          room(given.bytes),
          slots(static_cast<size_t>(given.window)) {}

    Result<std::optional<T>> read() {
      std::unique_lock lock(mutex);
      if (failure) return tl::unexpected<Error>(*failure);
      if (next_to_read == end) return std::optional<T>();
      std::optional<Result<T>>& slot = slot_of(next_to_read);
      const auto start = std::chrono::steady_clock::now();
      made.wait(lock, [&] { return stopped || slot.has_value(); });
      stalls.reader_stall_seconds += seconds_since(start);
      if (!slot.has_value()) return fail(ErrorKind::Cancelled, "the loader was stopped");
      Result<T> item = std::move(*slot);
      slot.reset();
      ++next_to_read;
      if (!item) failure = item.error();
      lock.unlock();
      work.notify_one();
      if (!item) return tl::unexpected<Error>(std::move(item).error());
      return std::optional<T>(std::move(*item));
    }

    void taken() {
      int64_t freed = 0;
      {
        const std::lock_guard lock(mutex);
        freed = room.waiting();
        room.taken();
        freed -= room.waiting();
      }
      // Several small ones may have found room where a large one was.
      freed > 1 ? work.notify_all() : work.notify_one();
    }

    void stop() {
      std::deque<Task> dropped;  // destroyed after the lock is released
      {
        const std::lock_guard lock(mutex);
        stopped = true;
        dropped.swap(tasks);
      }
      work.notify_all();
      made.notify_all();
    }

    void post(const std::shared_ptr<Item>& item, std::function<void()> task) {
      {
        const std::lock_guard lock(mutex);
        if (stopped || item->made) return;
        tasks.push_back({item, std::move(task)});
      }
      work.notify_one();
    }

    void deliver(Item& item, Result<T> result) {
      const int64_t bytes = result && limits.bytes_of ? limits.bytes_of(*result) : 0;
      bool over = false;
      {
        const std::lock_guard lock(mutex);
        if (stopped || item.made) return;
        item.made = true;
        --under_way;
        broken = broken || !result;
        room.made(item.index, bytes);
        slot_of(item.index).emplace(std::move(result));
        over = is_over();
      }
      made.notify_one();
      // Wakes all where nothing is left to wait for, so that they return.
      over ? work.notify_all() : work.notify_one();
    }

    // Nothing will be begun any more, and nothing is under way.
    [[nodiscard]] bool is_over() const {
      return stopped || ((broken || next_to_make == end) && under_way == 0);
    }
    [[nodiscard]] bool has_slot() const {
      return next_to_make < next_to_read + static_cast<int64_t>(slots.size());
    }
    [[nodiscard]] bool may_begin() const {
      return !broken && next_to_make < end && under_way + room.waiting() < limits.under_way &&
             has_slot();
    }

    // What a producer that finds nothing to do waits for; null at the end.
    [[nodiscard]] double* stall_of_wait() {
      if (broken || next_to_make == end) return nullptr;
      const bool has_room = has_slot() && room.waiting() == 0;
      return has_room ? &stalls.reply_stall_seconds : &stalls.producer_stall_seconds;
    }

    // What to do next: a task, or an item to begin; neither when all is over.
    Task next_task(std::shared_ptr<Item>& begun) {
      std::unique_lock lock(mutex);
      const auto start = std::chrono::steady_clock::now();
      double* const stall = stall_of_wait();
      work.wait(lock, [this] { return is_over() || !tasks.empty() || may_begin(); });
      if (stall != nullptr) *stall += seconds_since(start);
      if (is_over()) return {};
      if (!tasks.empty()) {  // first, so that what was begun first is made first
        Task task = std::move(tasks.front());
        tasks.pop_front();
        return task;
      }
      begun = std::make_shared<Item>(Item{.index = next_to_make++});
      ++under_way;
      return {};
    }

    std::optional<Result<T>>& slot_of(int64_t index) {
      return slots[static_cast<size_t>(index % static_cast<int64_t>(slots.size()))];
    }

    const Limits limits;
    const int64_t end;
    // Guards all below. No Guarded: reader and producers wait on conditions of their own, so that an
    // item wakes the reader alone, and a free slot one producer.
    mutable std::mutex mutex;
    std::condition_variable work;
    std::condition_variable made;
    int64_t next_to_make;
    int64_t next_to_read;
    int64_t under_way = 0;
    ChannelRoom room;
    bool stopped = false;
    bool broken = false;  // an item failed: nothing new is begun
    std::optional<Error> failure;
    std::vector<std::optional<Result<T>>> slots;
    std::deque<Task> tasks;
    PrefetchStalls stalls;
  };

  void begin(const std::shared_ptr<Item>& item) const {
    start_(
        item->index,
        [state = state_, item](std::function<void()> task) { state->post(item, std::move(task)); },
        [state = state_, item](Result<T> result) { state->deliver(*item, std::move(result)); }
    );
  }

  void work() {
    while (true) {
      std::shared_ptr<Item> begun;
      const Task task = state_->next_task(begun);
      const std::shared_ptr<Item> item = begun == nullptr ? task.item : begun;
      if (item == nullptr) return;
      try {
        begun == nullptr ? task.run() : begin(begun);
      } catch (const std::exception& error) {
        state_->deliver(
            *item,
            fail(
                is_out_of_memory(error) ? ErrorKind::OutOfMemory : ErrorKind::Internal,
                "batch " + std::to_string(item->index) + ": " + error.what()
            )
        );
      }
    }
  }

  const Start start_;
  const std::shared_ptr<State> state_;
  std::vector<std::future<void>> workers_;
};

}  // namespace gnn
