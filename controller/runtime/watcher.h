#pragma once

#include "common/backoff.h"
#include "common/clock.h"
#include "controller/client/api_error.h"
#include "controller/client/watch_decoder.h"

#include <string>
#include <string_view>
#include <variant>

namespace gnn::runtime {

/// What has happened since the last step of a Watcher.
namespace watch_input {
/// A list is asked for whatever the watch is doing; also at the start.
struct ListWanted {};
struct Listed {
  std::string resource_version;
};
struct ListFailed {
  client::ApiError error;
};
struct WatchOpened {};
struct WatchOpenFailed {
  client::ApiError error;
};
/// An event of the watch; `resource_version` is that of its object.
struct EventSeen {
  client::WatchEventType type = client::WatchEventType::Unknown;
  std::string resource_version;
};
/// An ERROR event.
struct ErrorSeen {
  client::ApiError error;
};
/// The body ended properly.
struct WatchEnded {};
/// The body ended early, or could not be read.
struct WatchBroken {
  Error error;
};
struct Waited {};
}  // namespace watch_input

using WatchInput = std::variant<
    watch_input::ListWanted,
    watch_input::Listed,
    watch_input::ListFailed,
    watch_input::WatchOpened,
    watch_input::WatchOpenFailed,
    watch_input::EventSeen,
    watch_input::ErrorSeen,
    watch_input::WatchEnded,
    watch_input::WatchBroken,
    watch_input::Waited>;

enum class WatchAction { List, OpenWatch, Read, Wait };

/// What to do next.
struct WatchStep {
  WatchAction action = WatchAction::List;
  std::string resource_version{};  ///< OpenWatch: where to continue
  Duration wait{0};                ///< for Wait
  std::string_view reason{};       ///< why the watch was interrupted; empty: it was not
};

struct WatcherOptions {
  BackoffOptions backoff{};  ///< 0.8 s, doubling, at most 30 s, jitter 1
  /// A watch that ends sooner, and without any event, counts as a failure.
  Duration shortest_watch = std::chrono::seconds(1);
  /// A watch that lives this long resets the back-off.
  Duration healthy_after = std::chrono::minutes(2);
  /// So does an event of one that has lived this long.
  Duration proven_after = std::chrono::seconds(10);
  /// How many watches in a row may end sooner than `shortest_watch`, although each brings something new.
  int64_t free_short_watches = 16;
  /// After so many tries to watch in a row that the server failed to answer, each try follows a list.
  int64_t tries_before_list = 8;
};

/// Decides between list, watch and wait: a state machine without I/O. Bookmarks and events advance
/// the resourceVersion. An expired resourceVersion, an unknown error or an unreadable stream leads
/// to a new list, as does a server that fails to open watches for long; anything else to a new watch from
/// the last resourceVersion. Failures wait, each longer than the one before, until a watch has lasted:
/// one event is no progress, since a server may send it before each failure.
class Watcher {
 public:
  explicit Watcher(WatcherOptions options = {}) : options_(options), backoff_(options.backoff) {}

  [[nodiscard]] WatchStep step(const WatchInput& input, MonotonicPoint now, RandomSource& random);

  [[nodiscard]] const std::string& resource_version() const { return resource_version_; }

 private:
  enum class AfterWait { List, Watch };

  [[nodiscard]] WatchStep wait_then(
      AfterWait after, const client::ApiError& error, std::string_view reason, RandomSource& random
  );
  [[nodiscard]] WatchStep list_again(std::string_view reason, RandomSource& random);
  [[nodiscard]] AfterWait after_refusal(const client::ApiError& error) const;
  /// Whether the watch that has ended was too short to be followed by the next at once.
  [[nodiscard]] bool was_too_short(Duration lived);
  [[nodiscard]] WatchStep watch_again(
      std::string_view reason, MonotonicPoint now, RandomSource& random
  );
  [[nodiscard]] WatchStep watch() const {
    return {.action = WatchAction::OpenWatch, .resource_version = resource_version_};
  }

  WatcherOptions options_;
  Backoff backoff_;
  std::string resource_version_;
  AfterWait after_wait_ = AfterWait::List;
  MonotonicPoint watch_opened_{};
  std::string version_at_start_;  ///< of the watch
  int64_t short_watches_ = 0;     ///< in a row, with something new
  bool saw_event_ = false;
};

}  // namespace gnn::runtime
