#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace gnn {

/// A fixed number of threads that run tasks in the order given. Idle threads sleep on a condition
/// variable. The destructor stops and joins.
class ThreadPool {
 public:
  explicit ThreadPool(size_t num_threads) {
    threads_.reserve(num_threads);
    for (size_t i = 0; i < num_threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~ThreadPool() {
    stop();
    for (std::thread& thread : threads_) thread.join();
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] size_t num_threads() const { return threads_.size(); }

  /// Queues a task. Its result or exception comes through the future; a task dropped by stop()
  /// leaves std::future_error (broken_promise) there.
  template <class Function>
  [[nodiscard]] std::future<std::invoke_result_t<Function>> submit(Function function) {
    // std::function needs a copyable callable, a packaged task is none.
    auto task =
        std::make_shared<std::packaged_task<std::invoke_result_t<Function>()>>(std::move(function));
    auto future = task->get_future();
    {
      const std::lock_guard lock(mutex_);
      if (!stopped_) tasks_.emplace_back([task] { (*task)(); });
    }
    wake_.notify_one();
    return future;
  }

  /// Runs body(begin, end) over [0, count) in pieces of `grain`, on the calling thread and on those
  /// of the pool that are free; returns when all pieces are done. After an exception no further
  /// piece starts; the first one is rethrown here.
  template <class Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body) {
    const auto loop = std::make_shared<Loop>(count, grain);
    const int64_t pieces = (count + grain - 1) / grain;
    for (int64_t i = 1; i < std::min(pieces, static_cast<int64_t>(num_threads()) + 1); ++i) {
      // A task that starts after the loop has ended finds no piece left and never touches `body`.
      const std::lock_guard lock(mutex_);
      if (!stopped_) tasks_.emplace_back([loop, &body] { loop->run(body); });
      wake_.notify_one();
    }
    loop->run(body);
    loop->finish();
  }

  /// Drops the tasks that have not started; running ones finish. May be called from any thread, and
  /// more than once.
  void stop() {
    std::deque<std::function<void()>> dropped;  // destroyed after the lock is released
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      dropped.swap(tasks_);
    }
    wake_.notify_all();
  }

 private:
  /// The shared state of one parallel_for.
  class Loop {
   public:
    Loop(int64_t count, int64_t grain) : count_(count), grain_(grain) {}

    template <class Body>
    void run(const Body& body) {
      std::unique_lock lock(mutex_);
      while (next_ < count_) {
        const int64_t begin = next_;
        const int64_t end = std::min(count_, begin + grain_);
        next_ = end;
        ++running_;
        lock.unlock();
        std::exception_ptr error;
        try {
          body(begin, end);
        } catch (...) {
          error = std::current_exception();
        }
        lock.lock();
        if (error) {
          next_ = count_;
          if (!error_) error_ = std::move(error);
        }
        if (--running_ == 0) idle_.notify_all();
      }
    }

    void finish() {
      std::unique_lock lock(mutex_);
      idle_.wait(lock, [this] { return running_ == 0; });
      if (error_) std::rethrow_exception(error_);
    }

   private:
    const int64_t count_;
    const int64_t grain_;
    std::mutex mutex_;
    std::condition_variable idle_;
    int64_t next_ = 0;
    int64_t running_ = 0;
    std::exception_ptr error_;
  };

  void work() {
    while (true) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stopped_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace gnn
