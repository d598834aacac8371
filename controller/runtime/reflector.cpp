#include "controller/runtime/reflector.h"

#include <type_traits>
#include <variant>

namespace gnn::runtime {
namespace {

constexpr const char* kLastEvent = "gnn_operator_watch_last_event_timestamp_seconds";

// Whether a list was answered that there is no such resource.
bool is_unserved(const WatchInput& input) {
  const auto* failed = std::get_if<watch_input::ListFailed>(&input);
  return failed != nullptr && failed->error.kind == client::ApiErrorKind::NotFound;
}

// Its metadata, or nullptr.
const objects::Json* metadata_of(const objects::Json& object) {
  if (!object.is_object()) return nullptr;
  const auto meta = object.find("metadata");
  return meta == object.end() || !meta->is_object() ? nullptr : &*meta;
}

// Its metadata.resourceVersion; empty if that can't be read.
std::string version_in(const objects::Json& object) {
  std::string version;
  const objects::Json* meta = metadata_of(object);
  if (meta == nullptr) return version;
  objects::ObjectReader reader(*meta, "metadata");
  reader.read("resourceVersion", version);
  return version;
}

}  // namespace

std::optional<ObjectKey> key_in(const objects::Json& object) {
  const objects::Json* meta = metadata_of(object);
  if (meta == nullptr) return std::nullopt;
  ObjectKey key;
  objects::ObjectReader reader(*meta, "metadata");
  reader.read("namespace", key.namespace_);
  reader.read("name", key.name);
  if (!reader.status() || key.name.empty()) return std::nullopt;
  return key;
}

ReflectorThread::ReflectorThread(
    client::ApiClient& api,
    client::Resource resource,
    ReflectorOptions options,
    Clock& clock,
    RandomSource& random,
    MetricsRegistry& metrics,
    Sink sink
)
    : api_(api),
      resource_(std::move(resource)),
      options_(std::move(options)),
      clock_(clock),
      random_(random),
      metrics_(metrics),
      sink_(std::move(sink)),
      heartbeat_(clock),
      watcher_(options_.watcher) {}

ReflectorThread::~ReflectorThread() {
  stop();
}

void ReflectorThread::start() {
  if (thread_.joinable()) thread_.join();
  thread_ = std::thread([this] { run(); });
}

void ReflectorThread::stop() {
  std::stop_source call;
  {
    auto shared = shared_.lock();
    shared->stop = true;
    call = shared->call;
  }
  shared_.notify_all();
  call.request_stop();
  if (thread_.joinable()) thread_.join();
}

void ReflectorThread::list_again() {
  std::stop_source call;
  {
    auto shared = shared_.lock();
    ++shared->wanted;
    call = shared->call;
  }
  shared_.notify_all();
  call.request_stop();
}

bool ReflectorThread::fresh() const {
  const auto shared = shared_.lock();
  return shared->ended >= shared->wanted;
}

std::stop_token ReflectorThread::begin_call(WatchAction action) {
  auto shared = shared_.lock();
  if (action == WatchAction::List) shared->begun = shared->wanted;
  shared->call = std::stop_source();
  // Who asked since the last step has stopped the call before this one.
  if (shared->interrupts()) shared->call.request_stop();
  return shared->call.get_token();
}

void ReflectorThread::run() {
  WatchInput input = watch_input::ListWanted{};
  while (true) {
    {
      const auto shared = shared_.lock();
      if (shared->stop) break;
      if (shared->wanted > shared->begun) input = watch_input::ListWanted{};
    }
    heartbeat_.beat();
    const WatchStep step = watcher_.step(input, clock_.monotonic(), random_);
    if (!step.reason.empty()) {
      metrics_
          .counter(
              "gnn_operator_watch_restarts_total",
              "Watches that were interrupted, by reason.",
              {{"resource", resource_.label}, {"reason", std::string(step.reason)}}
          )
          .increment();
    }
    switch (step.action) {
      case WatchAction::List:
        stream_.reset();
        input = list();
        break;
      case WatchAction::OpenWatch:
        stream_.reset();
        input = open_watch(step.resource_version);
        break;
      case WatchAction::Read:
        input = read();
        break;
      case WatchAction::Wait: {
        stream_.reset();
        heartbeat_.beat(step.wait);
        shared_.lock().wait_until(clock_, clock_.monotonic() + step.wait, [](const Shared& shared) {
          return shared.interrupts();
        });
        input = watch_input::Waited{};
        break;
      }
    }
    if (options_.on_unserved && is_unserved(input)) {
      end_unserved();
      break;
    }
  }
  stream_.reset();
  heartbeat_.rest();
}

void ReflectorThread::note(const client::ApiError* error) {
  auto shared = shared_.lock();
  if (error == nullptr) return shared->trouble.reset();
  const MonotonicPoint since = shared->trouble ? shared->trouble->since : clock_.monotonic();
  shared->trouble = {.text = error->text.empty() ? error->message : error->text, .since = since};
}

void ReflectorThread::end_unserved() {
  log_warning("is not served", {{"resource", resource_.label}});
  sink_.emptied();
  // Nobody is to wait for its events.
  metrics_.remove_series(kLastEvent, {{"resource", resource_.label}});
  options_.on_unserved();
}

bool ReflectorThread::wants_left_out() const {
  return clock_.monotonic() - listed_ >= options_.list_for_room && sink_.has_room_again &&
         sink_.has_room_again();
}

WatchInput ReflectorThread::list() {
  metrics_
      .counter(
          "gnn_operator_lists_total",
          "Full lists requested from the API server.",
          {{"resource", resource_.label}}
      )
      .increment();
  sink_.begin_list();
  const std::stop_token stop = begin_call(WatchAction::List);
  auto version = api_.list(
      resource_,
      {.namespace_ = options_.namespace_,
       .label_selector = options_.label_selector,
       .resource_version = {},
       .content = options_.content,
       .page_size = options_.page_size,
       .object_limits = options_.object_limits,
       .unread = sink_.unread,
       .stop = stop},
      [this](const objects::Json& object) {
        heartbeat_.beat();
        sink_.listed(object);
      }
  );
  if (!version) {
    if (!stop.stop_requested()) {
      log_warning(
          "cannot list", {{"resource", resource_.label}, {"error", version.error().message}}
      );
      note(&version.error());
    }
    return watch_input::ListFailed{std::move(version).error()};
  }
  sink_.end_list(*version);
  note(nullptr);
  listed_ = clock_.monotonic();
  {
    auto shared = shared_.lock();
    shared->ended = shared->begun;
  }
  return watch_input::Listed{std::move(*version)};
}

WatchInput ReflectorThread::open_watch(const std::string& resource_version) {
  const double factor = 1.0 + random_.uniform();
  const std::stop_token stop = begin_call(WatchAction::OpenWatch);
  auto stream = api_.watch(
      resource_,
      {.namespace_ = options_.namespace_,
       .label_selector = options_.label_selector,
       .resource_version = resource_version,
       .content = options_.content,
       .server_timeout =
           std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::nano>(
               static_cast<double>(options_.shortest_server_timeout.count()) * factor
           )),
       .idle_timeout = options_.idle_timeout,
       .stop = stop}
  );
  if (!stream) {
    if (!stop.stop_requested()) {
      log_warning(
          "cannot watch", {{"resource", resource_.label}, {"error", stream.error().message}}
      );
      note(&stream.error());
    }
    return watch_input::WatchOpenFailed{std::move(stream).error()};
  }
  note(nullptr);
  stream_ = std::move(*stream);
  watch_opened_ = clock_.monotonic();
  last_event_ = watch_opened_;
  decoder_ = client::WatchDecoder({.event = options_.object_limits});
  pending_.clear();
  next_pending_ = 0;
  return watch_input::WatchOpened{};
}

bool ReflectorThread::is_half_dead() const {
  const MonotonicPoint now = clock_.monotonic();
  return now - last_event_ > 2 * options_.idle_timeout ||
         now - watch_opened_ > 2 * options_.shortest_server_timeout + options_.idle_timeout;
}

WatchInput ReflectorThread::read() {
  while (next_pending_ == pending_.size()) {
    pending_.clear();
    next_pending_ = 0;
    heartbeat_.beat(options_.idle_timeout);
    auto bytes = stream_->read();
    if (!bytes) return watch_input::WatchBroken{std::move(bytes).error()};
    if (bytes->empty()) return watch_input::WatchEnded{};
    // At the latest with a bookmark, of which one comes every minute.
    if (wants_left_out()) return watch_input::ListWanted{};
    metrics_
        .gauge(
            kLastEvent,
            "When the watch last received something from the API server, bookmarks included.",
            {{"resource", resource_.label}}
        )
        .set(std::chrono::duration<double>(clock_.now().time_since_epoch()).count());
    if (auto fed = decoder_.feed(*bytes, pending_); !fed) {
      // Events before the bad line are lost, too; the list that follows brings their state.
      log_warning(
          "cannot read the watch stream",
          {{"resource", resource_.label}, {"error", fed.error().message}}
      );
      return watch_input::WatchBroken{std::move(fed).error()};
    }
    if (!pending_.empty()) last_event_ = clock_.monotonic();
    // What came with it is sent again from the last version.
    if (is_half_dead()) {
      return watch_input::WatchBroken{
          {.kind = ErrorKind::Timeout, .message = "no whole event in time"}
      };
    }
  }
  client::WatchEvent& event = pending_[next_pending_++];
  watch_input::EventSeen seen{.type = event.type, .resource_version = version_in(event.object)};
  switch (event.type) {
    case client::WatchEventType::Added:
    case client::WatchEventType::Modified:
    case client::WatchEventType::Deleted:
      sink_.changed(event, seen.resource_version);
      break;
    case client::WatchEventType::Error:
      return watch_input::ErrorSeen{client::api_error_from_status(event.object, "watch")};
    case client::WatchEventType::Bookmark:
    case client::WatchEventType::Unknown:
      break;
  }
  event.object = nullptr;
  return seen;
}

}  // namespace gnn::runtime
