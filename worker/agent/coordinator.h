#pragma once

#include "common/clock.h"
#include "common/contract.h"
#include "worker/agent/messages.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gnn::agent {

struct CoordinatorOptions {
  int64_t nodes = 1;
  int64_t rounds_left = 0;
  std::chrono::milliseconds rendezvous_timeout =
      std::chrono::seconds(contract::kDefaultRendezvousSeconds);
  std::chrono::milliseconds peer_timeout{10'000};
  /// How long a follow-on failure waits for its cause to appear. Longer than peer_timeout and the time
  /// in which an agent that hangs still beats, so that its end is noticed before its peers are blamed.
  std::chrono::milliseconds blame_window{14'000};
  /// From the request to stop until ranks that still run are killed.
  std::chrono::milliseconds grace{110'000};
};

/// Node 0's decisions: from the reports of all agents to the directive for all. No I/O; the time is
/// an argument: RunningTime, so that a freeze of node 0 is nobody's silence.
class Coordinator {
 public:
  Coordinator(CoordinatorOptions options, MonotonicPoint now);

  /// `reports[n]`: the latest report of node n; nullopt before its first.
  const Directive& decide(
      const std::vector<std::optional<NodeReport>>& reports, MonotonicPoint now
  );

  [[nodiscard]] const Directive& directive() const { return directive_; }

 private:
  struct Seen {
    int64_t beat = -1;
    MonotonicPoint at{};
  };

  void gather(const std::vector<std::optional<NodeReport>>& reports, MonotonicPoint now);
  void watch_round(const std::vector<std::optional<NodeReport>>& reports, MonotonicPoint now);
  void watch_stop(const std::vector<std::optional<NodeReport>>& reports, MonotonicPoint now);
  void end_round(const Failure& failure, MonotonicPoint now);
  void leave(int64_t exit_code, std::string message, std::optional<Failure> failure);
  [[nodiscard]] std::optional<int64_t> lost_node(
      const std::vector<std::optional<NodeReport>>& reports, MonotonicPoint now
  );
  [[nodiscard]] std::optional<Failure> first_failure(
      const std::vector<std::optional<NodeReport>>& reports, MonotonicPoint now
  );

  CoordinatorOptions options_;
  Directive directive_;
  std::vector<Seen> seen_;
  MonotonicPoint gathering_since_;
  MonotonicPoint stopping_since_;
  std::optional<MonotonicPoint> follow_on_since_;
};

}  // namespace gnn::agent
