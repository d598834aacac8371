#pragma once

#include "common/guarded.h"
#include "controller/runtime/fair_line.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gnn::app {

/// A pool for calls that wait on the network. Its threads take one task of each owner in turn, and of
/// each caller of an owner, so that a caller with a thousand tasks holds up nobody.
/// Threads: run() may be called from any thread, but not from a task.
class Parallel {
 public:
  /// `share`: the most threads that one owner holds at the same time. Without threads, each
  /// task runs on its caller's.
  Parallel(size_t threads, size_t share);
  ~Parallel();
  Parallel(const Parallel&) = delete;
  Parallel& operator=(const Parallel&) = delete;

  /// Calls `task(0)` … `task(count − 1)` and returns when all have returned.
  void run(const std::string& owner, size_t count, const std::function<void(size_t)>& task);

 private:
  /// One call of run(), which owns it.
  struct Run {
    const std::function<void(size_t)>& task;
    size_t count = 0;
    size_t begun = 0;
    size_t done = 0;
  };
  struct State {
    runtime::FairLine<Run*> waiting;  ///< those with tasks not begun
    bool stopping = false;
  };

  struct Task {
    std::string owner;
    Run* run;
    size_t index;
  };

  void work();
  /// Waits for a task. Nothing: the pool stops.
  [[nodiscard]] std::optional<Task> begin_next();
  void end(const Task& task);

  Guarded<State> state_;
  std::vector<std::thread> threads_;
};

}  // namespace gnn::app
