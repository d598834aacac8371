#pragma once

#include "common/clock.h"
#include "common/metrics.h"
#include "common/random.h"
#include "controller/app/caches.h"
#include "controller/client/api_client.h"

#include <functional>
#include <string>
#include <vector>

namespace gnn::app {

/// Keeps the caches up to date: lists and watches each kind, in all namespaces or in those named.
/// Threads: one at a time.
class CacheReflectors {
 public:
  /// Without `namespaces`, all are watched. A watch that receives nothing for `idle_timeout` is
  /// opened anew.
  CacheReflectors(
      Caches& caches,
      client::ApiClient& api,
      const std::vector<std::string>& namespaces,
      Duration idle_timeout,
      Clock& clock,
      RandomSource& random,
      MetricsRegistry& metrics
  );

  void start();
  void stop();
  /// Whether each cache holds at least one whole list of each namespace.
  [[nodiscard]] bool synced() const;
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
  };

  std::vector<Reflector> reflectors_;
};

}  // namespace gnn::app
