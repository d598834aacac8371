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
  /// Whether the controller may replace a lost node alone; never node 0.
  bool replaces_nodes = false;
};

/// Node 0's decisions: from the reports of all agents to the directive for all. No I/O; the time is
/// an argument: RunningTime, so that a freeze of node 0 is nobody's silence.
class Coordinator {
 public:
  Coordinator(CoordinatorOptions options, MonotonicPoint now);

  /// A pod that replaced `restart` pods of its node asks to take part. It takes the place of any
  /// before it, whose reports count no longer, and the next round begins if this one had begun.
  void admit(int64_t node, int64_t restart, MonotonicPoint now);

  /// `reports[n]`: the latest report of the pod that takes part for node n; nullopt before its first.
  const Directive& decide(
      const std::vector<std::optional<NodeReport>>& reports, MonotonicPoint now
  );

  [[nodiscard]] const Directive& directive() const { return directive_; }
  /// How many pods of the node were replaced by the one that takes part.
  [[nodiscard]] int64_t restart_of(int64_t node) const;
  /// The lost node whose place a new pod has to take.
  [[nodiscard]] std::optional<int64_t> awaited() const { return awaited_; }

 private:
  struct Seen {
    int64_t beat = -1;
    MonotonicPoint at{};
  };

  void gather(const std::vector<std::optional<NodeReport>>& reports, MonotonicPoint now);
  void watch_round(const std::vector<std::optional<NodeReport>>& reports, MonotonicPoint now);
  void watch_stop(const std::vector<std::optional<NodeReport>>& reports, MonotonicPoint now);
  void end_round(const Failure& failure, MonotonicPoint now);
  void begin_next_round(const Failure& failure, MonotonicPoint now);
  void lose(int64_t node, const std::string& message, MonotonicPoint now);
  [[nodiscard]] bool may_replace(int64_t node) const;
  [[nodiscard]] std::optional<int64_t> only_leaver(
      const std::vector<std::optional<NodeReport>>& reports
  ) const;
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
  std::optional<int64_t> awaited_;
  int64_t replacements_ = 0;  // of all nodes together; each costs at least one round
};

}  // namespace gnn::agent
