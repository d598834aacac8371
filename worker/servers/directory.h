#pragma once

#include "common/clock.h"
#include "common/guarded.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gnn::servers {

/// A sampling server that is there, and takes requests.
struct LiveServer {
  int64_t server = 0;   ///< its number, n: it holds part n mod P
  int64_t restart = 0;  ///< how many pods of this server there were before this one
  std::string address;  ///< "HOST:PORT" of its data

  friend bool operator==(const LiveServer&, const LiveServer&) = default;
};

/// Which servers are live, as node 0 says.
/// Threads: safe from any thread.
class Directory {
 public:
  struct Listing {
    int64_t version = 0;              ///< one more with each change; 0: nothing is known yet
    std::vector<LiveServer> servers;  ///< ascending; of two pods of one server the later one

    /// Those that hold `part`, ascending; all of them for part -1.
    [[nodiscard]] std::vector<LiveServer> holders_of(int64_t part, int64_t partitions) const;
  };

  /// Replaces the list. The same list again is no change.
  void update(std::vector<LiveServer> servers);

  [[nodiscard]] std::shared_ptr<const Listing> read() const;
  [[nodiscard]] std::vector<LiveServer> holders_of(int64_t part, int64_t partitions) const {
    return read()->holders_of(part, partitions);
  }

  /// Waits until the list has another version than `version`, or `deadline`; returns the list.
  [[nodiscard]] std::shared_ptr<const Listing> wait_for_change(
      int64_t version, Clock& clock, MonotonicPoint deadline
  ) const;

  /// Has `listener` called after each change, by the thread that updates, until the last copy of the
  /// result is gone; no call is under way after that. It must be brief, and not drop the result.
  [[nodiscard]] std::shared_ptr<void> subscribe(std::function<void()> listener);

 private:
  struct State {
    std::shared_ptr<const Listing> listing = std::make_shared<const Listing>();
  };
  struct Listeners {
    int64_t next = 0;
    std::map<int64_t, std::function<void()>> all;
  };

  mutable Guarded<State> state_;
  const std::shared_ptr<Guarded<Listeners>> listeners_ = std::make_shared<Guarded<Listeners>>();
};

}  // namespace gnn::servers
