#include "worker/tracking/tracker_thread.h"

#include "common/log.h"
#include "common/printable.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace gnn::tracking {
namespace {

constexpr size_t kLongestReason = 300;

// What goes wrong more often than this goes wrong at the end, too.
constexpr int64_t kFailuresOfADeadTracker = 2;

bool is_worth_another_try(const Error& error) {
  return error.kind == ErrorKind::Network || error.kind == ErrorKind::Timeout;
}

}  // namespace

TrackerThread::TrackerThread(
    std::unique_ptr<Tracker> tracker,
    TrackerThreadOptions options,
    Clock& clock,
    RandomSource& random
)
    : tracker_(std::move(tracker)),
      options_(options),
      clock_(clock),
      random_(random),
      backoff_(options.backoff),
      thread_([this] { run(); }) {}

TrackerThread::~TrackerThread() {
  close(RunEnd::Failed, {});
}

void TrackerThread::add(const Record& record) {
  {
    const auto state = state_.lock();
    if (state->queue.size() < options_.capacity) {
      state->queue.push_back(record);
    } else {
      drop(1);
      return;
    }
  }
  state_.notify_one();
}

void TrackerThread::close(RunEnd end, Duration limit) {
  if (!thread_.joinable()) return;
  {
    const auto state = state_.lock();
    state->closing = true;
    state->end = end;
    state->deadline = clock_.monotonic() + limit;
  }
  state_.notify_one();
  thread_.join();
  const int64_t dropped = counts_.lock()->dropped;
  if (dropped > 0)
    log_warning(
        "a tracker was not told everything",
        {{"tracker", std::string(name())}, {"dropped_records", dropped}}
    );
}

void TrackerThread::drop(size_t records) {
  counts_.lock()->dropped += static_cast<int64_t>(records);
}

std::vector<Record> TrackerThread::next_batch() {
  auto state = state_.lock();
  state.wait([](const State& s) { return s.closing || !s.queue.empty(); });
  std::vector<Record> batch(
      std::make_move_iterator(state->queue.begin()), std::make_move_iterator(state->queue.end())
  );
  state->queue.clear();
  return batch;
}

MonotonicPoint TrackerThread::call_deadline() {
  return std::min(clock_.monotonic() + options_.call_time, state_.lock()->deadline);
}

void TrackerThread::note_failure(const Error& error) {
  const int64_t failures = ++counts_.lock()->failures;
  if (failures == 1)
    log_warning(
        "a tracker cannot be told; training goes on",
        {{"tracker", std::string(name())}, {"why", printable_line(error.message, kLongestReason)}}
    );
}

void TrackerThread::wait_after_failure() {
  const MonotonicPoint next = clock_.monotonic() + backoff_.next(random_);
  auto state = state_.lock();
  state.wait_until(clock_, next, [](const State& s) { return s.closing; });
  gave_up_ = state->closing && (backoff_.attempts() >= kFailuresOfADeadTracker ||
                                clock_.monotonic() >= state->deadline);
}

void TrackerThread::deliver(std::vector<Record>& batch) {
  const Status status = tracker_->write(batch, call_deadline());
  if (status) {
    counts_.lock()->written += static_cast<int64_t>(batch.size());
    backoff_.reset();
    batch.clear();
    return;
  }
  note_failure(status.error());
  if (!is_worth_another_try(status.error())) {
    drop(batch.size());
    batch.clear();
  }
  wait_after_failure();
}

void TrackerThread::run() {
  std::vector<Record> batch = next_batch();
  while (!batch.empty() && !gave_up_) {
    deliver(batch);
    if (batch.empty() && !gave_up_) batch = next_batch();
  }
  drop(batch.size());
  end();
}

void TrackerThread::end() {
  RunEnd end = RunEnd::Failed;
  MonotonicPoint deadline{};
  {
    const auto state = state_.lock();
    drop(state->queue.size());
    end = state->end;
    deadline = state->deadline;
  }
  if (gave_up_ || clock_.monotonic() >= deadline) return;
  if (Status status = tracker_->close(end, deadline); !status) note_failure(status.error());
}

}  // namespace gnn::tracking
