#include "controller/app/job_wait.h"

#include "common/api/codec.h"
#include "controller/app/gnn_job_resource.h"
#include "controller/client/watch_decoder.h"
#include "controller/reconcile/conditions.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

using client::ApiErrorKind;
using client::WatchEventType;
using Kind = WaitResult::Kind;
using objects::Json;

constexpr Duration kPause = std::chrono::milliseconds(500);

std::string text_of(const Json& object, const char* pointer) {
  return object.value(Json::json_pointer(pointer), std::string());
}

// How the job ended; nothing while it has not.
std::optional<WaitResult> end_of(const api::GnnJobStatus& status) {
  for (const auto& [type, kind] :
       {std::pair(reconcile::condition::kComplete, Kind::Complete),
        std::pair(reconcile::condition::kFailed, Kind::Failed)}) {
    if (!reconcile::is_true(status, type)) continue;
    return WaitResult{.kind = kind, .message = reconcile::find_condition(status, type)->message};
  }
  return std::nullopt;
}

class JobWait {
 public:
  JobWait(
      client::ApiClient& api,
      const objects::ObjectKey& key,
      const WaitOptions& options,
      Clock& clock
  )
      : api_(api),
        key_(key),
        options_(options),
        clock_(clock),
        deadline_(clock.monotonic() + options.timeout) {}

  WaitResult run() {
    while (remaining() > Duration::zero()) {
      if (auto end = look()) return *end;
      if (!saw_event_) options_.pause(std::min(kPause, remaining()));
    }
    return {.kind = Kind::TimedOut, .message = last_};
  }

 private:
  using End = std::optional<WaitResult>;

  Duration remaining() const { return deadline_ - clock_.monotonic(); }

  // Reads the job, and then follows it until its watch ends.
  End look() {
    saw_event_ = false;
    std::optional<Json> found;
    const auto version = may_list_ ? list(found) : get(found);
    if (!version) return std::nullopt;
    End end = found ? see(*found) : miss();
    if (end || version->empty()) return end;
    return watch(*version);
  }

  // The version to watch from; nothing after an error.
  std::optional<std::string> list(std::optional<Json>& found) {
    auto version = calls().list(
        client::resource_of<api::GnnJob>(),
        {.namespace_ = key_.namespace_, .field_selector = selector()},
        [&](const Json& object) { found = object; }
    );
    if (version) return *version;
    may_list_ = version.error().kind != ApiErrorKind::Forbidden;
    last_ = version.error().message;
    return std::nullopt;
  }

  // Without a right to list there is none to watch: its version is empty.
  std::optional<std::string> get(std::optional<Json>& found) {
    const auto object = calls().get(client::resource_of<api::GnnJob>(), key_);
    if (object) found = *object;
    if (object || object.error().kind == ApiErrorKind::NotFound) return "";
    last_ = object.error().message;
    return std::nullopt;
  }

  End watch(const std::string& version) {
    constexpr Duration kServerTimeout = std::chrono::minutes(5);
    constexpr Duration kIdleTimeout = std::chrono::seconds(90);
    if (remaining() <= Duration::zero()) return std::nullopt;
    const auto stream = api_.watch(
        client::resource_of<api::GnnJob>(),
        {.namespace_ = key_.namespace_,
         .field_selector = selector(),
         .resource_version = version,
         .server_timeout = std::min(kServerTimeout, remaining()),
         .idle_timeout = std::min(kIdleTimeout, remaining())}
    );
    if (!stream) {
      last_ = stream.error().message;
      return std::nullopt;
    }
    client::WatchDecoder decoder;
    while (remaining() > Duration::zero()) {
      const auto bytes = (*stream)->read();
      if (!bytes || bytes->empty()) return std::nullopt;
      std::vector<client::WatchEvent> events;
      if (!decoder.feed(*bytes, events)) return std::nullopt;
      for (const client::WatchEvent& event : events) {
        if (event.type == WatchEventType::Error) return std::nullopt;
        if (auto end = see(event)) return end;
      }
    }
    return std::nullopt;
  }

  End see(const client::WatchEvent& event) {
    const bool of_job = event.type == WatchEventType::Added ||
                        event.type == WatchEventType::Modified ||
                        event.type == WatchEventType::Deleted;
    if (!of_job || event.unread) return std::nullopt;
    saw_event_ = true;
    if (auto end = see(event.object)) return end;
    return event.type == WatchEventType::Deleted ? miss() : std::nullopt;
  }

  End see(const Json& object) {
    const std::string uid = text_of(object, "/metadata/uid");
    if (!uid_.empty() && uid != uid_) return deleted();
    uid_ = uid;
    const auto job = api::decode_job(object, api::UnknownFields::Ignore);
    if (!job) {
      last_ = job.error().message;
      return std::nullopt;
    }
    last_ = "state " + (job->status.state.empty() ? "not set" : job->status.state);
    return end_of(job->status);
  }

  // The job is not there.
  End miss() {
    if (!uid_.empty()) return deleted();
    last_ = "no GNNJob of this name was seen";
    return std::nullopt;
  }

  WaitResult deleted() const { return {.kind = Kind::Deleted, .message = last_}; }

  std::string selector() const { return "metadata.name=" + key_.name; }

  client::ApiClient calls() const {
    constexpr Duration kTimeout = std::chrono::seconds(30);
    return api_.with_timeout(std::min(kTimeout, remaining()));
  }

  client::ApiClient& api_;
  const objects::ObjectKey& key_;
  const WaitOptions& options_;
  Clock& clock_;
  const MonotonicPoint deadline_;
  bool may_list_ = true;
  bool saw_event_ = false;  // in the last look
  std::string uid_;         // of the job that was seen
  std::string last_ = "not seen yet";
};

}  // namespace

WaitResult wait_for_job(
    client::ApiClient& api, const objects::ObjectKey& key, const WaitOptions& options, Clock& clock
) {
  return JobWait(api, key, options, clock).run();
}

}  // namespace gnn::app
