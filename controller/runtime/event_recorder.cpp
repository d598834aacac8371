#include "controller/runtime/event_recorder.h"

#include "common/log.h"
#include "common/rfc3339.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace gnn::runtime {
namespace {

constexpr size_t kMaxNote = 1024;
const client::Resource kEvents = client::resource_of<objects::Event>();

Duration pause_of(double writes_per_second) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(1.0 / writes_per_second)
  );
}

// At most `limit` bytes of the text, cut between characters.
std::string cut(std::string text, size_t limit) {
  if (text.size() <= limit) return text;
  text.resize(limit - 3);
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0U) == 0x80U) {
    text.pop_back();
  }
  if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xc0U) text.pop_back();
  return text + "...";
}

std::string object_id(const EventText& text) {
  return text.regarding.kind + "/" + text.regarding.namespace_ + "/" + text.regarding.name + "/" +
         text.regarding.uid;
}

std::string kind_id(const EventText& text) {
  return text.type + "/" + text.reason + "/" + text.action;
}

}  // namespace

EventCorrelator::EventCorrelator(
    EventCorrelatorOptions options, std::string controller, std::string instance
)
    : options_(options), controller_(std::move(controller)), instance_(std::move(instance)) {}

std::optional<EventWrite> EventCorrelator::correlate(
    const EventText& text, TimePoint now, MonotonicPoint monotonic
) {
  ObjectState& state = state_of(text, monotonic);

  // 1. Combine events that differ only in their note once there are many.
  Similar& similar = state.similar[kind_id(text)];
  if (monotonic - similar.last > options_.similar_window) similar.notes.clear();
  similar.last = monotonic;
  std::string note = cut(text.note, kMaxNote);
  bool combined = false;
  if (static_cast<int64_t>(similar.notes.size()) < options_.similar_limit ||
      similar.notes.contains(note)) {
    similar.notes.emplace(note, true);
  } else {
    combined = true;
    note = cut("(combined from similar events): " + note, kMaxNote);
  }

  // 2. Limit the rate of each object's events.
  if (!take_token(state, monotonic)) return std::nullopt;

  // 3. Count a repeated event instead of writing it again.
  const std::string id = kind_id(text) + (combined ? "" : "/" + note);
  const auto known = state.written.find(id);
  if (known != state.written.end() && monotonic - known->second.last <= options_.similar_window) {
    known->second.last = monotonic;
    return RaiseCount{
        .key = known->second.key,
        .series = {.count = ++known->second.count, .last_observed_time = now},
    };
  }

  CreateEvent create;
  objects::Event& event = create.event;
  std::array<char, 24> suffix{};
  std::snprintf(
      suffix.data(),
      suffix.size(),
      ".%llx",
      static_cast<unsigned long long>(now.time_since_epoch().count()) + state.written.size()
  );
  event.metadata.name = text.regarding.name + suffix.data();
  event.metadata.namespace_ = text.regarding.namespace_;
  event.event_time = now;
  event.reporting_controller = controller_;
  event.reporting_instance = cut(instance_, 128);
  event.action = text.action;
  event.type = text.type;
  event.reason = text.reason;
  event.note = std::move(note);
  event.regarding = text.regarding;
  state.written[id] = {.key = objects::key_of(event.metadata), .count = 1, .last = monotonic};
  return create;
}

void EventCorrelator::forget(const EventText& text, const EventWrite& write) {
  const auto* create = std::get_if<CreateEvent>(&write);
  const objects::ObjectKey key =
      create != nullptr ? objects::key_of(create->event.metadata) : std::get<RaiseCount>(write).key;
  const auto found = objects_.find(object_id(text));
  if (found == objects_.end()) return;
  std::erase_if(found->second.written, [&](const auto& each) { return each.second.key == key; });
}

EventCorrelator::ObjectState& EventCorrelator::state_of(const EventText& text, MonotonicPoint now) {
  const std::string id = object_id(text);
  const auto found = objects_.find(id);
  if (found != objects_.end()) {
    by_age_.splice(by_age_.begin(), by_age_, found->second.age);
    return found->second;
  }
  if (objects_.size() >= options_.max_objects) {
    objects_.erase(by_age_.back());
    by_age_.pop_back();
  }
  by_age_.push_front(id);
  ObjectState state;
  state.tokens = options_.burst;
  state.refilled = now;
  state.age = by_age_.begin();
  return objects_.emplace(id, std::move(state)).first->second;
}

bool EventCorrelator::take_token(ObjectState& state, MonotonicPoint now) const {
  const double earned = static_cast<double>((now - state.refilled).count()) /
                        static_cast<double>(options_.refill.count());
  state.tokens = std::min(options_.burst, state.tokens + earned);
  state.refilled = now;
  if (state.tokens < 1) return false;
  state.tokens -= 1;
  return true;
}

EventRecorder::EventRecorder(
    client::ApiClient& api, EventRecorderOptions options, Clock& clock, MetricsRegistry& metrics
)
    : api_(api),
      options_(std::move(options)),
      clock_(clock),
      correlator_(EventCorrelator(options_.correlator, options_.controller, options_.instance)),
      dropped_(metrics.counter(
          "gnn_operator_events_dropped_total",
          "Events that were not written, because there were too many or the API server refused "
          "them."
      )) {
  for (size_t i = 0; i < options_.writers; ++i) threads_.emplace_back([this] { run(); });
}

EventRecorder::~EventRecorder() {
  stop();
}

void EventRecorder::record(EventText text) {
  text.note = cut(std::move(text.note), kMaxNote);
  {
    auto state = state_.lock();
    if (state->stopping) return dropped_.increment();
    const std::string owner = text.regarding.namespace_;
    state->waiting.push(owner, std::move(text));
    if (state->waiting.size() > options_.max_waiting) {
      state->waiting.drop_from_longest();
      dropped_.increment();
    }
  }
  state_.notify_all();
}

void EventRecorder::stop() {
  state_.lock()->stopping = true;
  state_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void EventRecorder::run() {
  while (const auto text = take()) done(text->regarding.namespace_, write(*text));
}

std::optional<EventText> EventRecorder::take() {
  auto state = state_.lock();
  while (true) {
    const MonotonicPoint now = clock_.monotonic();
    auto& resting = state->resting;
    while (!resting.empty() && (state->stopping || resting.begin()->first <= now)) {
      state->waiting.done(resting.begin()->second);
      resting.erase(resting.begin());
    }
    if (state->cancelled || (state->stopping && state->waiting.empty())) return std::nullopt;
    const bool ready = state->waiting.ready();
    if (ready && (state->stopping || state->next_write <= now)) break;
    const auto news = [stopping = state->stopping, ready](const State& later) {
      return later.cancelled || later.stopping != stopping || later.waiting.ready() != ready ||
             (later.stopping && later.waiting.empty());
    };
    if (ready || !resting.empty()) {
      state.wait_until(clock_, ready ? state->next_write : resting.begin()->first, news);
    } else {
      state.wait([&](const State& later) { return news(later) || !later.resting.empty(); });
    }
  }
  state->next_write = clock_.monotonic() + pause_of(options_.writes_per_second);
  return std::move(state->waiting.take()->item);
}

void EventRecorder::done(const std::string& namespace_, bool got_through) {
  const bool busy = options_.busy(namespace_);
  {
    auto state = state_.lock();
    if (!got_through && state->stopping && !state->cancelled) {
      state->cancelled = true;
      dropped_.increment(static_cast<double>(state->waiting.size()));
    }
    if (busy && !state->stopping) {
      state->resting.emplace(
          clock_.monotonic() + pause_of(options_.writes_per_second_when_busy), namespace_
      );
    } else {
      state->waiting.done(namespace_);
    }
  }
  state_.notify_all();
}

bool EventRecorder::write(const EventText& text) {
  const auto write = correlator_.lock()->correlate(text, clock_.now(), clock_.monotonic());
  if (!write) {
    dropped_.increment();
    return true;
  }
  std::optional<client::ApiError> error;
  if (const auto* create = std::get_if<CreateEvent>(&*write)) {
    if (auto reply = api_.create(kEvents, encode(create->event)); !reply) error = reply.error();
  } else if (const auto* raise = std::get_if<RaiseCount>(&*write)) {
    const objects::Json patch = {
        {"series",
         {{"count", raise->series.count},
          {"lastObservedTime", format_rfc3339_micro(raise->series.last_observed_time)}}}
    };
    auto reply = api_.patch(kEvents, raise->key, client::PatchKind::MergePatch, patch);
    if (!reply) error = reply.error();
  }
  if (!error) return true;
  correlator_.lock()->forget(text, *write);
  dropped_.increment();
  log_warning("cannot write an event", {{"job", text.regarding.name}, {"error", error->message}});
  return error->kind != client::ApiErrorKind::Cancelled;
}

}  // namespace gnn::runtime
