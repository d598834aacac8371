#pragma once

#include "common/clock.h"
#include "worker/agent/messages.h"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace gnn::agent {

/// Which sampling servers take part, from what they write to the store. Of several pods of one server
/// the one with the highest number counts, and the reports of the others no longer do. No I/O; the time
/// is an argument: RunningTime.
/// Threads: one thread.
class LiveServers {
 public:
  /// A server whose beat stands still for longer than `timeout` takes part no longer.
  explicit LiveServers(Duration timeout) : timeout_(timeout) {}

  /// `reports[n]`: the latest of server n; nothing where none could be read. Returns those that take
  /// part, ascending.
  const std::vector<LiveServer>& update(
      const std::vector<std::optional<ServerReport>>& reports, MonotonicPoint now
  );

  [[nodiscard]] const std::vector<LiveServer>& live() const { return live_; }

 private:
  struct Seen {
    ServerReport report;
    MonotonicPoint at{};  ///< of its latest beat
  };

  Duration timeout_;
  std::map<int64_t, Seen> seen_;
  std::vector<LiveServer> live_;
};

}  // namespace gnn::agent
