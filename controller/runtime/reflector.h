#pragma once

#include "common/clock.h"
#include "common/guarded.h"
#include "common/log.h"
#include "common/metrics.h"
#include "common/random.h"
#include "controller/client/api_client.h"
#include "controller/client/watch_decoder.h"
#include "controller/objects/footprint.h"
#include "controller/runtime/heartbeat.h"
#include "controller/runtime/memory_budget.h"
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
  /// Shared by all caches; an object for which it has no room is left out. nullptr: no bound.
  MemoryBudget* budget = nullptr;
  /// How often a list may bring what was left out, once the budget has room again: in the meantime
  /// its changes come late.
  Duration list_for_room = std::chrono::minutes(5);
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
    /// Whether a list would bring what was left out.
    std::function<bool()> has_room_again;
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
  /// Whether it is time for a list that brings what was left out.
  [[nodiscard]] bool wants_left_out() const;
  /// Prepares for a list or watch: what ends it.
  [[nodiscard]] std::stop_token begin_call(WatchAction action);
  [[nodiscard]] WatchInput list();
  [[nodiscard]] WatchInput open_watch(const std::string& resource_version);
  /// Whether the watch has brought no whole event for too long, or outlives by far the time that the
  /// server was asked to end it at: bytes alone are no sign of life.
  [[nodiscard]] bool is_half_dead() const;
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
  MonotonicPoint listed_{};
  MonotonicPoint watch_opened_{};
  MonotonicPoint last_event_{};  ///< of the watch, bookmarks included, or when it was opened
  std::unique_ptr<client::HttpStream> stream_;
  mutable Guarded<Shared> shared_;
  std::thread thread_;
};

/// The object's key; nothing if not even that can be read.
[[nodiscard]] std::optional<ObjectKey> key_in(const objects::Json& object);

/// Keeps a Store equal to the API server's objects. An object that cannot be decoded, or is above a
/// limit, is skipped and counted. One for which the budget has no room is left out and counted; the
/// store tells of it as if it had vanished.
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
        budget_(options.budget),
        resource_(client::resource_of<T>().label),
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
        left_out_(metrics.gauge(
            "gnn_operator_left_out_objects",
            "Objects that the cache has no room for, because their namespace has its share.",
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
                .begin_list =
                    [this] {
                      listing_.clear();
                      listing_left_out_.clear();
                      told_ = 0;
                    },
                .listed = [this](const objects::Json& json) { list(json); },
                .unread = [this](const objects::Json& json, const Error& why) { skip(json, why); },
                .end_list =
                    [this](const std::string& version) {
                      if (budget_ != nullptr) {
                        budget_->replace_left_out(
                            resource_, namespace_, std::exchange(listing_left_out_, {})
                        );
                      }
                      store_.replace(std::exchange(listing_, {}), namespace_, version);
                      show_sizes();
                    },
                .emptied =
                    [this] {
                      if (budget_ != nullptr) budget_->replace_left_out(resource_, namespace_, {});
                      store_.clear(namespace_);
                      show_sizes();
                    },
                .changed = [this](
                               const client::WatchEvent& event, const std::string& version
                           ) { change(event, version); },
                .has_room_again =
                    [this] { return budget_ != nullptr && budget_->has_room_again(resource_); },
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

  /// Those left out of a list that the store tells of, so that some jobs say so; it would take a key
  /// in a queue for each.
  static constexpr int64_t kMostTold = 1000;

  Pointer decode(const objects::Json& json) {
    auto object = objects::ResourceTraits<T>::decode(json);
    if (object) return std::make_shared<const T>(std::move(*object));
    skip(json, object.error());
    return nullptr;
  }

  [[nodiscard]] static ObjectKey key_of(const T& object) {
    return {object.metadata.namespace_, object.metadata.name};
  }

  /// The same object, charged; nullptr: there is no room.
  Pointer keep(const Pointer& object) const {
    if (budget_ == nullptr) return object;
    const ObjectKey key = key_of(*object);
    const Pointer before = store_.find(key);
    auto charge = budget_->admit(
        key.namespace_,
        objects::footprint_of(*object),
        before == nullptr ? 0 : objects::footprint_of(*before)
    );
    if (!charge) return nullptr;
    return with_charge(object, std::move(*charge));
  }

  void list(const objects::Json& json) {
    const Pointer object = decode(json);
    if (object == nullptr) return;
    // What has not changed is not there twice.
    const Pointer before = store_.find(key_of(*object));
    if (before != nullptr && *before == *object) return listing_.push_back(before);
    if (Pointer kept = keep(object)) return listing_.push_back(std::move(kept));
    MemoryBudget::add(listing_left_out_[object->metadata.namespace_], key_of(*object));
    if (told_++ < kMostTold) tell_left_out(object);
  }

  void tell_left_out(const Pointer& object) {
    budget_->leave_out(resource_, key_of(*object));
    store_.leave_out(object);
  }

  void show_sizes() {
    cached_.set(static_cast<double>(store_.size()));
    if (budget_ != nullptr) left_out_.set(static_cast<double>(budget_->left_out(resource_)));
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
      if (const auto key = key_in(event.object)) {
        if (budget_ != nullptr) budget_->not_left_out(resource_, *key);
        store_.erase(*key, version);
      }
    } else if (event.unread) {
      skip(event.object, *event.unread);
    } else if (const Pointer object = decode(event.object)) {
      if (const Pointer kept = keep(object)) {
        if (budget_ != nullptr) budget_->not_left_out(resource_, key_of(*object));
        store_.upsert(kept);
      } else {
        tell_left_out(object);
      }
    }
    show_sizes();
  }

  Store<T>& store_;
  const std::string namespace_;
  MemoryBudget* const budget_;
  const std::string resource_;
  std::vector<Pointer> listing_;
  MemoryBudget::LeftOutByNamespace listing_left_out_;
  int64_t told_ = 0;
  Counter undecodable_;
  Gauge cached_;
  Gauge left_out_;
  ReflectorThread thread_;  // last: its thread uses all of the above
};

}  // namespace gnn::runtime
