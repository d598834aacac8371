#include "controller/app/parallel.h"

#include <utility>

namespace gnn::app {

Parallel::Parallel(size_t threads) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

Parallel::~Parallel() {
  state_.lock()->stopping = true;
  state_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Parallel::run(size_t count, const std::function<void(size_t)>& task) {
  if (count == 1) return task(0);
  Guarded<size_t> left(count);
  {
    auto state = state_.lock();
    for (size_t i = 0; i < count; ++i) {
      state->waiting.emplace_back([&left, &task, i] {
        task(i);
        // Under the lock: the waiter may destroy `left` once it holds it.
        auto now = left.lock();
        --*now;
        left.notify_all();
      });
    }
  }
  state_.notify_all();
  auto now = left.lock();
  now.wait([](size_t open) { return open == 0; });
}

void Parallel::work() {
  while (true) {
    std::function<void()> task;
    {
      auto state = state_.lock();
      state.wait([](const State& now) { return now.stopping || !now.waiting.empty(); });
      if (state->waiting.empty()) return;
      task = std::move(state->waiting.front());
      state->waiting.pop_front();
    }
    task();
  }
}

}  // namespace gnn::app
