#pragma once

#include "common/result.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace gnn {

/// Runs a task soon, on a thread of its own choice, or drops it if what the task works for has ended.
/// May be called from any thread, also after that end; copies outlive it.
using Executor = std::function<void(std::function<void()> task)>;

/// Runs each task at once, on the thread that hands it over.
[[nodiscard]] inline Executor run_at_once() {
  return [](const std::function<void()>& task) { task(); };
}

/// Calls start(executor, done) and runs the executor's tasks on this thread until done(result) has
/// been called, from any thread; returns that result.
template <class T, class Start>
Result<T> run_here(const Start& start) {
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> tasks;
    std::optional<Result<T>> result;
  };
  const auto state = std::make_shared<State>();
  // A task holds the executor, which holds the state: without this, tasks that are left would keep it.
  struct Clear {
    State& state;
    ~Clear() {
      std::deque<std::function<void()>> dropped;  // destroyed after the lock is released
      const std::lock_guard lock(state.mutex);
      dropped.swap(state.tasks);
    }
  } const clear{*state};
  start(
      Executor([state](std::function<void()> task) {
        const std::lock_guard lock(state->mutex);
        if (!state->result) state->tasks.push_back(std::move(task));
        state->changed.notify_one();
      }),
      [state](Result<T> result) {
        const std::lock_guard lock(state->mutex);
        if (!state->result) state->result.emplace(std::move(result));
        state->changed.notify_one();
      }
  );
  while (true) {
    std::unique_lock lock(state->mutex);
    state->changed.wait(lock, [&] { return state->result || !state->tasks.empty(); });
    if (state->result) return std::move(*state->result);
    const std::function<void()> task = std::move(state->tasks.front());
    state->tasks.pop_front();
    lock.unlock();
    task();
  }
}

}  // namespace gnn
