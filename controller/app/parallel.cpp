#include "controller/app/parallel.h"

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
  if (count == 0) return;
  if (count == 1) return task(0);
  Run run{.task = task, .count = count};
  auto state = state_.lock();
  state->waiting.push_back(&run);
  state_.notify_all();
  state.wait([&](const State&) { return run.done == run.count; });
}

void Parallel::work() {
  while (true) {
    Run* run = nullptr;
    size_t index = 0;
    {
      auto state = state_.lock();
      state.wait([](const State& now) { return now.stopping || !now.waiting.empty(); });
      if (state->waiting.empty()) return;
      run = state->waiting.front();
      state->waiting.pop_front();
      index = run->begun++;
      if (run->begun < run->count) state->waiting.push_back(run);
    }
    run->task(index);
    // Under the lock: the caller may destroy the run once it holds it.
    const auto state = state_.lock();
    if (++run->done == run->count) state_.notify_all();
  }
}

}  // namespace gnn::app
