#pragma once

#include "common/clock.h"
#include "common/guarded.h"
#include "common/log.h"
#include "common/metrics.h"
#include "common/random.h"
#include "controller/client/api_client.h"
#include "controller/client/watch_decoder.h"
#include "controller/runtime/heartbeat.h"
#include "controller/runtime/store.h"
#include "controller/runtime/watcher.h"

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::runtime {

struct ReflectorOptions {
  std::string namespace_{};  ///< empty: all
  std::string label_selector{};
  client::Content content = client::Content::Whole;
  int64_t page_size = 200;
  /// An object above these is skipped, like one that cannot be decoded.
  objects::JsonLimits object_limits{};
  WatcherOptions watcher{};
  /// The server is asked to end each watch after a time drawn from [shortest, 2 × shortest).
  Duration shortest_server_timeout = std::chrono::minutes(5);
  Duration idle_timeout = std::chrono::seconds(90);
  /// Called when the API server does not serve the resource. The reflector has ended then, and its store
  /// is empty, until it is started again. Without it, the reflector goes on asking.
  std::function<void()> on_unserved{};
};

/// What keeps a reflector from knowing its objects.
struct ReflectorTrouble {
  std::string text;      ///< what the API server said, or the network
  MonotonicPoint since;  ///< when it began
};

/// The part of a Reflector that does not depend on the type: a thread that lists and watches as a
/// Watcher decides.
class ReflectorThread {
 public:
  /// Receives what the server sends, on the reflector's thread.
  struct Sink {
    std::function<void()> begin_list;
    std::function<void(const objects::Json&)> listed;
    /// Instead of `listed` for an object that was not read: what is known of it, and why.
    std::function<void(const objects::Json&, const Error&)> unread;
    /// With the resourceVersion of the list.
    std::function<void(const std::string&)> end_list;
    /// The resource is served no more.
    std::function<void()> emptied;
    /// ADDED, MODIFIED or DELETED, with the object's resourceVersion; empty if that cannot be read.
    std::function<void(const client::WatchEvent&, const std::string&)> changed;
  };

  ReflectorThread(
      client::ApiClient& api,
      client::Resource resource,
      ReflectorOptions options,
      Clock& clock,
      RandomSource& random,
      MetricsRegistry& metrics,
      Sink sink
  );
  ~ReflectorThread();
  ReflectorThread(const ReflectorThread&) = delete;
  ReflectorThread& operator=(const ReflectorThread&) = delete;

  /// To be called once, and again after it has ended by itself.
  void start();
  /// Ends the list or watch, even while it waits, and joins.
  void stop();
  /// Drops the list or watch in progress and lists at once.
  /// Threads: safe from any thread.
  void list_again();
  /// Whether a list that began after the last list_again() has ended; without one, any list.
  /// Threads: safe from any thread.
  [[nodiscard]] bool fresh() const;
  /// Why the last list, or the last try to watch, failed; nothing if it did not.
  /// Threads: safe from any thread.
  [[nodiscard]] std::optional<ReflectorTrouble> trouble() const { return shared_.lock()->trouble; }
  /// Whether it started long ago to do something that it should be through with.
  /// Threads: safe from any thread.
  [[nodiscard]] bool stands_still() const { return heartbeat_.stands_still(); }

 private:
  /// What other threads ask of this one, and what they learn. Lists that were asked for count from 1;
  /// the one at the start is number 0.
  struct Shared {
    bool stop = false;
    int64_t wanted = 0;
    int64_t begun = -1;
    int64_t ended = -1;
    std::optional<ReflectorTrouble> trouble{};
    std::stop_source call{};  ///< ends the list or watch in progress

    [[nodiscard]] bool interrupts() const { return stop || wanted > begun; }
  };

  void run();
  /// What follows from a list that was answered: no such resource.
  void end_unserved();
  /// Takes note of how a list or the start of a watch went.
  void note(const client::ApiError* error);
  /// Prepares for a list or watch: what ends it.
  [[nodiscard]] std::stop_token begin_call(WatchAction action);
  [[nodiscard]] WatchInput list();
  [[nodiscard]] WatchInput open_watch(const std::string& resource_version);
  /// Reads until there is something for the Watcher to decide.
  [[nodiscard]] WatchInput read();

  client::ApiClient& api_;
  const client::Resource resource_;
  const ReflectorOptions options_;
  Clock& clock_;
  RandomSource& random_;
  MetricsRegistry& metrics_;
  const Sink sink_;
  Heartbeat heartbeat_;
  Watcher watcher_;
  client::WatchDecoder decoder_;
  std::vector<client::WatchEvent> pending_;  ///< decoded, but not yet given to the Watcher
  size_t next_pending_ = 0;
  std::unique_ptr<client::HttpStream> stream_;
  mutable Guarded<Shared> shared_;
  std::thread thread_;
};

/// The object's key; nothing if not even that can be read.
[[nodiscard]] std::optional<ObjectKey> key_in(const objects::Json& object);

/// Keeps a Store equal to the API server's objects. An object that cannot be decoded, or is above a
/// limit, is skipped and counted.
template <class T>
class Reflector {
 public:
  Reflector(
      client::ApiClient& api,
      Store<T>& store,
      ReflectorOptions options,
      Clock& clock,
      RandomSource& random,
      MetricsRegistry& metrics
  )
      : store_(store),
        namespace_(options.namespace_),
        undecodable_(metrics.counter(
            "gnn_operator_undecodable_objects_total",
            "Objects of the API server that were skipped: not decodable, or too large.",
            {{"resource", client::resource_of<T>().label}}
        )),
        cached_(metrics.gauge(
            "gnn_operator_cache_objects",
            "Objects in the cache.",
            {{"resource", client::resource_of<T>().label}}
        )),
        thread_(
            api,
            client::resource_of<T>(),
            std::move(options),
            clock,
            random,
            metrics,
            {
                .begin_list = [this] { listing_.clear(); },
                .listed =
                    [this](const objects::Json& json) {
                      if (auto object = decode(json)) listing_.push_back(std::move(object));
                    },
                .unread = [this](const objects::Json& json, const Error& why) { skip(json, why); },
                .end_list =
                    [this](const std::string& version) {
                      store_.replace(std::exchange(listing_, {}), namespace_, version);
                      cached_.set(static_cast<double>(store_.size()));
                    },
                .emptied =
                    [this] {
                      store_.clear(namespace_);
                      cached_.set(static_cast<double>(store_.size()));
                    },
                .changed = [this](
                               const client::WatchEvent& event, const std::string& version
                           ) { change(event, version); },
            }
        ) {}

  void start() { thread_.start(); }
  void stop() { thread_.stop(); }
  /// See ReflectorThread.
  void list_again() { thread_.list_again(); }
  [[nodiscard]] bool fresh() const { return thread_.fresh(); }
  [[nodiscard]] bool stands_still() const { return thread_.stands_still(); }
  [[nodiscard]] std::optional<ReflectorTrouble> trouble() const { return thread_.trouble(); }

 private:
  using Pointer = typename Store<T>::Pointer;

  Pointer decode(const objects::Json& json) {
    auto object = objects::ResourceTraits<T>::decode(json);
    if (object) return std::make_shared<const T>(std::move(*object));
    skip(json, object.error());
    return nullptr;
  }

  void skip(const objects::Json& json, const Error& why) {
    undecodable_.increment();
    log_warning(
        "skipping an object that cannot be read",
        {{"resource", client::resource_of<T>().label},
         {"object", objects::to_string(key_in(json).value_or(ObjectKey{}))},
         {"error", why.message}}
    );
  }

  void change(const client::WatchEvent& event, const std::string& version) {
    if (event.type == client::WatchEventType::Deleted) {
      // The key is enough: an object whose last state cannot be decoded must not stay.
      if (const auto key = key_in(event.object)) store_.erase(*key, version);
    } else if (event.unread) {
      skip(event.object, *event.unread);
    } else if (const Pointer object = decode(event.object)) {
      store_.upsert(object);
    }
    cached_.set(static_cast<double>(store_.size()));
  }

  Store<T>& store_;
  const std::string namespace_;
  std::vector<Pointer> listing_;
  Counter undecodable_;
  Gauge cached_;
  ReflectorThread thread_;  // last: its thread uses all of the above
};

}  // namespace gnn::runtime
