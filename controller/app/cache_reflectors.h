#pragma once

#include "common/clock.h"
#include "common/metrics.h"
#include "common/random.h"
#include "controller/app/caches.h"
#include "controller/client/api_client.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::app {

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
  /// Whether each cache holds at least one whole list of each namespace.
  [[nodiscard]] bool synced() const;
  /// Whether the caches hold that API's groups.
  /// Threads: safe from any thread.
  [[nodiscard]] bool synced_groups(objects::GroupApi api) const;
  /// The same for Kueue's Workloads.
  [[nodiscard]] bool synced_workloads(objects::KueueVersion version) const;
  /// Lists everything again, at once.
  /// Threads: safe from any thread.
  void list_again();
  /// Whether the lists asked for last, by list_again() or at the start, are in the caches.
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
    std::function<bool()> stands_still;
    std::string optional_api;  ///< "group/version" that may not be served; empty: it always is
    std::shared_ptr<std::atomic<bool>> runs;
  };

  void start_api(const std::string& api);
  [[nodiscard]] bool synced_api(const std::string& api) const;

  std::vector<Reflector> reflectors_;
  std::function<void()> on_unserved_groups_ = [] {};
};

}  // namespace gnn::app
