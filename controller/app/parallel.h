#pragma once

#include "common/guarded.h"

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

namespace gnn::app {

/// A pool for calls that wait on the network. Its threads take one task of each caller in turn, so
/// that a caller with a thousand tasks holds up nobody.
/// Threads: run() may be called from any thread, but not from a task.
class Parallel {
 public:
  explicit Parallel(size_t threads);
  ~Parallel();
  Parallel(const Parallel&) = delete;
  Parallel& operator=(const Parallel&) = delete;

  /// Calls `task(0)` … `task(count − 1)` and returns when all have returned.
  void run(size_t count, const std::function<void(size_t)>& task);

 private:
  /// One call of run(), which owns it.
  struct Run {
    const std::function<void(size_t)>& task;
    size_t count = 0;
    size_t begun = 0;
    size_t done = 0;
  };
  struct State {
    std::deque<Run*> waiting;  ///< those with tasks not begun; the next in turn first
    bool stopping = false;
  };

  void work();

  Guarded<State> state_;
  std::vector<std::thread> threads_;
};

}  // namespace gnn::app
