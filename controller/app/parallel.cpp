#include "controller/app/parallel.h"

#include <utility>

namespace gnn::app {

Parallel::Parallel(size_t threads, size_t share)
    : state_(State{.waiting = runtime::FairLine<Run*>(share, threads)}) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

Parallel::~Parallel() {
  state_.lock()->stopping = true;
  state_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Parallel::run(
    const std::string& owner, size_t count, const std::function<void(size_t)>& task
) {
  if (count == 0) return;
  if (count == 1 || threads_.empty()) {
    for (size_t i = 0; i < count; ++i) task(i);
    return;
  }
  Run run{.task = task, .count = count};
  auto state = state_.lock();
  state->waiting.push(owner, &run);
  state_.notify_all();
  state.wait([&](const State&) { return run.done == run.count; });
}

void Parallel::work() {
  while (const auto next = begin_next()) {
    next->run->task(next->index);
    end(*next);
  }
}

std::optional<Parallel::Task> Parallel::begin_next() {
  auto state = state_.lock();
  state.wait([](const State& now) { return now.stopping || now.waiting.ready(); });
  auto taken = state->waiting.take();
  if (!taken) return std::nullopt;
  Run* const run = taken->item;
  const size_t index = run->begun++;
  if (run->begun < run->count) state->waiting.push(taken->owner, run);
  return Task{.owner = std::move(taken->owner), .run = run, .index = index};
}

void Parallel::end(const Task& task) {
  // Under the lock: the caller may destroy the run once it holds it.
  auto state = state_.lock();
  state->waiting.done(task.owner);
  if (++task.run->done == task.run->count || state->waiting.ready()) state_.notify_all();
}

}  // namespace gnn::app
