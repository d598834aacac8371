#include "worker/tracking/tracker_thread.h"

#include "common/guarded.h"
#include "common/log.h"
#include "common/printable.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace gnn::tracking {
namespace {

constexpr size_t kLongestReason = 300;

// What goes wrong more often than this goes wrong at the end, too.
constexpr int64_t kFailuresOfADeadTracker = 2;

bool is_worth_another_try(const Error& error) {
  return error.kind == ErrorKind::Network || error.kind == ErrorKind::Timeout;
}

}  // namespace

struct TrackerThread::State {
  std::deque<Record> queue{};
  size_t in_hand = 0;  // records that the thread tells
  progress::TrackerCounts counts{};
  std::optional<std::string> failure{};  // the first one, until it is logged
  std::optional<Status> opened{};
  bool closing = false;
  RunEnd end = RunEnd::Failed;
  MonotonicPoint deadline = MonotonicPoint::max();
  MonotonicPoint leave_at{};
  bool ended = false;  // the thread tells nothing any more

  void drop_rest() {
    counts.dropped += static_cast<int64_t>(queue.size() + in_hand);
    queue.clear();
    in_hand = 0;
  }
  void note_failure(const Error& error) {
    if (++counts.failures == 1) failure = printable_line(error.message, kLongestReason);
  }
};

// What the thread uses, which owns it together with the TrackerThread. When the thread is left, each
// deadline of its calls has passed: a call that ends after all is the last one. The process may be at
// its end then, so that the thread never logs.
class TrackerThread::Teller {
 public:
  Teller(
      const TrackerThreadOptions& options,
      std::shared_ptr<Clock> clock,
      std::shared_ptr<RandomSource> random
  )
      : options_(options),
        clock_(std::move(clock)),
        random_(std::move(random)),
        backoff_(options.backoff) {}

  [[nodiscard]] Guarded<State>& state() { return state_; }

  void run(const Open& open) {
    tell_all(open);
    state_.lock()->ended = true;
    state_.notify_all();
  }

 private:
  // The tracker is gone when this returns: to close a file can take as long as to write it.
  void tell_all(const Open& open) {
    const std::unique_ptr<Tracker> tracker = opened(open);
    if (!tracker) return;
    std::vector<Record> batch = next_batch();
    while (!batch.empty() && !gave_up_) {
      deliver(*tracker, batch);
      if (batch.empty() && !gave_up_) batch = next_batch();
    }
    end(*tracker);
  }

  std::unique_ptr<Tracker> opened(const Open& open) {
    Result<std::unique_ptr<Tracker>> tracker = open();
    {
      const auto state = state_.lock();
      state->opened = tracker ? Status() : tl::unexpected(tracker.error());
      if (!tracker) {
        state->note_failure(tracker.error());
        state->drop_rest();
        state->ended = true;  // what is added from now on is dropped
      }
    }
    state_.notify_all();
    return tracker ? *std::move(tracker) : nullptr;
  }

  // Nothing once all is told.
  std::vector<Record> next_batch() {
    auto state = state_.lock();
    state.wait([](const State& s) { return s.closing || !s.queue.empty(); });
    std::vector<Record> batch(
        std::make_move_iterator(state->queue.begin()), std::make_move_iterator(state->queue.end())
    );
    state->queue.clear();
    state->in_hand = batch.size();
    return batch;
  }

  MonotonicPoint call_deadline() {
    return std::min(clock_->monotonic() + options_.call_time, state_.lock()->deadline);
  }

  void deliver(Tracker& tracker, std::vector<Record>& batch) {
    const Status status = tracker.write(batch, call_deadline());
    if (take_answer(status)) batch.clear();
    if (!status) wait_after_failure();
  }

  // Returns whether the records in hand are done with.
  bool take_answer(const Status& status) {
    const auto state = state_.lock();
    if (!status) state->note_failure(status.error());
    if (!status && is_worth_another_try(status.error())) return false;
    (status ? state->counts.written : state->counts.dropped) +=
        static_cast<int64_t>(std::exchange(state->in_hand, 0));
    if (status) backoff_.reset();
    return true;
  }

  void wait_after_failure() {
    const MonotonicPoint next = clock_->monotonic() + backoff_.next(*random_);
    auto state = state_.lock();
    state.wait_until(*clock_, next, [](const State& s) { return s.closing; });
    gave_up_ = state->closing && (backoff_.attempts() >= kFailuresOfADeadTracker ||
                                  clock_->monotonic() >= state->deadline);
  }

  void end(Tracker& tracker) {
    RunEnd end = RunEnd::Failed;
    MonotonicPoint deadline{};
    {
      const auto state = state_.lock();
      state->drop_rest();
      end = state->end;
      deadline = state->deadline;
    }
    if (gave_up_ || clock_->monotonic() >= deadline) return;
    const Status status = tracker.close(end, deadline);
    if (!status) state_.lock()->note_failure(status.error());
  }

  TrackerThreadOptions options_;
  std::shared_ptr<Clock> clock_;
  std::shared_ptr<RandomSource> random_;
  Backoff backoff_;
  bool gave_up_ = false;  // the tracker does not answer, and there is no time left
  Guarded<State> state_;
};

TrackerThread::TrackerThread(
    std::string_view name,
    Open open,
    TrackerThreadOptions options,
    std::shared_ptr<Clock> clock,
    std::shared_ptr<RandomSource> random
)
    : name_(name),
      options_(options),
      clock_(clock),
      teller_(std::make_shared<Teller>(options, std::move(clock), std::move(random))),
      thread_([teller = teller_, open = std::move(open)] { teller->run(open); }) {}

TrackerThread::~TrackerThread() {
  if (!teller_->state().lock()->closing) finish(RunEnd::Failed, {});
  join();
}

Status TrackerThread::await_open(Duration limit) {
  auto state = teller_->state().lock();
  const bool opened = state.wait_until(*clock_, clock_->monotonic() + limit, [](const State& s) {
    return s.opened.has_value();
  });
  if (opened) return *state->opened;
  return fail(ErrorKind::Timeout, "not open in time");
}

void TrackerThread::add(const Record& record) {
  {
    const auto state = teller_->state().lock();
    if (!state->ended && state->queue.size() < options_.capacity) {
      state->queue.push_back(record);
    } else {
      ++state->counts.dropped;
    }
  }
  teller_->state().notify_all();
  log_failure();
}

void TrackerThread::finish(RunEnd end, Duration limit) {
  {
    const auto state = teller_->state().lock();
    const MonotonicPoint now = clock_->monotonic();
    state->closing = true;
    state->end = end;
    state->deadline = now + limit;
    state->leave_at = now + std::max(limit, options_.call_time) + options_.grace;
  }
  teller_->state().notify_all();
}

void TrackerThread::join() {
  if (!thread_.joinable()) return;
  bool ended = false;
  {
    auto state = teller_->state().lock();
    ended = state.wait_until(*clock_, state->leave_at, [](const State& s) { return s.ended; });
    if (!ended) state->drop_rest();
  }
  if (ended) {
    thread_.join();
  } else {
    // Nothing ends a call that the system does not end, but the process's end. See Teller.
    thread_.detach();
  }
  log_failure();
  const int64_t dropped = counts().dropped;
  if (ended && dropped == 0) return;
  log_warning(
      ended ? "a tracker was not told everything" : "a tracker does not answer and is left behind",
      {{"tracker", name_}, {"dropped_records", dropped}}
  );
}

progress::TrackerCounts TrackerThread::counts() const {
  return teller_->state().lock()->counts;
}

void TrackerThread::log_failure() const {
  const std::optional<std::string> why =
      std::exchange(teller_->state().lock()->failure, std::nullopt);
  if (!why) return;
  log_warning("a tracker cannot be told; training goes on", {{"tracker", name_}, {"why", *why}});
}

}  // namespace gnn::tracking
