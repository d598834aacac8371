#pragma once

#include "common/guarded.h"

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

namespace gnn::app {

/// A pool for calls that wait on the network.
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
  struct State {
    std::deque<std::function<void()>> waiting;
    bool stopping = false;
  };

  void work();

  Guarded<State> state_;
  std::vector<std::thread> threads_;
};

}  // namespace gnn::app
