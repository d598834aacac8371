#pragma once

#include "common/clock.h"
#include "common/metrics.h"
#include "common/random.h"
#include "controller/app/caches.h"
#include "controller/client/api_client.h"
#include "controller/runtime/reflector.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gnn::app {

/// What is known of the objects of an API that need not be served.
struct OptionalCache {
  bool runs = false;          ///< they are listed and watched: the API is served
  std::string why_unknown{};  ///< why they are not known all the same; empty: they are
};

/// Keeps the caches up to date: lists and watches each kind, in all namespaces or in those named.
/// Threads: one at a time.
class CacheReflectors {
 public:
  /// Without `namespaces`, all are watched. Groups of pods are only where start_groups() says so. A
  /// watch that receives nothing for `idle_timeout` is opened anew. `network_policies`: whether jobs
  /// have them; otherwise the operator may have no right to read any.
  CacheReflectors(
      Caches& caches,
      client::ApiClient& api,
      const std::vector<std::string>& namespaces,
      Duration idle_timeout,
      Clock& clock,
      RandomSource& random,
      MetricsRegistry& metrics,
      const std::vector<objects::GroupApi>& group_apis = {},
      bool kueue = false,
      bool network_policies = true
  );

  /// Calls `then` whenever an API for groups turns out to be served no more: its groups are not watched
  /// then. To be called before start_groups().
  void on_unserved_groups(std::function<void()> then) { on_unserved_groups_ = std::move(then); }

  /// All but those of groups of pods and of Kueue.
  void start();
  /// Those of that API's groups that are not watched yet, or no more.
  /// Threads: one at a time, and not beside stop().
  void start_groups(objects::GroupApi api);
  /// The same for Kueue's Workloads.
  void start_workloads(objects::KueueVersion version);
  void stop();
  /// What has not been listed once, and why, of that which every job needs; empty: nothing. The groups of
  /// pods and Kueue's Workloads are not waited for.
  [[nodiscard]] std::string waits_for() const;
  /// What the caches know of that API's groups.
  /// Threads: safe from any thread.
  [[nodiscard]] OptionalCache groups(objects::GroupApi api) const;
  /// The same for Kueue's Workloads.
  [[nodiscard]] OptionalCache workloads(objects::KueueVersion version) const;
  /// Lists everything again, at once.
  /// Threads: safe from any thread.
  void list_again();
  /// Whether the lists asked for last, by list_again() or at the start, are in the caches, of that which
  /// every job needs.
  [[nodiscard]] bool fresh() const;
  /// The resource of a reflector that stands still; empty: none does.
  /// Threads: safe from any thread.
  [[nodiscard]] std::string standing_still() const;

 private:
  struct Reflector {
    std::function<void()> start;
    std::function<void()> stop;
    std::function<bool()> synced;
    std::function<void()> list_again;
    std::function<bool()> fresh;
    std::string resource;
    std::string plural;
    std::function<bool()> stands_still;
    std::function<std::optional<runtime::ReflectorTrouble>()> trouble;
    std::string optional_api;  ///< "group/version" that may not be served; empty: it always is
    std::shared_ptr<std::atomic<bool>> runs;
  };

  void start_api(const std::string& api);
  [[nodiscard]] OptionalCache optional_cache(const std::string& api) const;

  Clock& clock_;
  std::vector<Reflector> reflectors_;
  std::function<void()> on_unserved_groups_ = [] {};
};

}  // namespace gnn::app
