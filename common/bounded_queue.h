#pragma once

#include "common/result.h"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace gnn {

/// A first-in first-out queue of at most `capacity` items, for any number of threads, which wait
/// without polling. It can end in three ways: after close() readers drain it; after fail_with()
/// they drain it and then get the error; cancel() drops what is queued and wakes everybody. The
/// first of these counts, except that cancel() always applies.
template <class T>
class BoundedQueue {
 public:
  /// capacity > 0.
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {
    GNN_ASSERT(capacity > 0, "callers choose the capacity in their code");
  }
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  /// Waits for room.
  /// Errors: Cancelled once the queue has ended in any way.
  Status push(T item) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return end_ != End::Open || items_.size() < capacity_; });
    if (end_ != End::Open) return fail(ErrorKind::Cancelled, "the queue no longer takes items");
    items_.push_back(std::move(item));
    lock.unlock();
    ready_.notify_one();
    return {};
  }

  /// Waits for an item; std::nullopt at the end of a closed queue.
  /// Errors: that of fail_with(), once the items before it are taken; Cancelled after cancel().
  Result<std::optional<T>> pop() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return end_ != End::Open || !items_.empty(); });
    if (end_ == End::Cancelled) return tl::unexpected<Error>(*error_);
    if (items_.empty()) {
      if (end_ == End::Failed) return tl::unexpected<Error>(*error_);
      return std::optional<T>();
    }
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    lock.unlock();
    room_.notify_one();
    return item;
  }

  void close() { end(End::Closed, std::nullopt); }
  void fail_with(Error error) { end(End::Failed, std::move(error)); }

  void cancel() {
    std::deque<T> dropped;  // destroyed after the lock is released
    {
      const std::lock_guard lock(mutex_);
      end_ = End::Cancelled;
      error_ = Error{ErrorKind::Cancelled, "the queue was cancelled"};
      dropped.swap(items_);
    }
    ready_.notify_all();
    room_.notify_all();
  }

  [[nodiscard]] size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  enum class End { Open, Closed, Failed, Cancelled };

  void end(End how, std::optional<Error> error) {
    {
      const std::lock_guard lock(mutex_);
      if (end_ != End::Open) return;
      end_ = how;
      error_ = std::move(error);
    }
    ready_.notify_all();
    room_.notify_all();
  }

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::condition_variable room_;
  std::deque<T> items_;
  End end_ = End::Open;
  std::optional<Error> error_;
};

}  // namespace gnn
