#pragma once

#include "common/clock.h"
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
  std::chrono::milliseconds rendezvous_timeout{600'000};
  std::chrono::milliseconds peer_timeout{10'000};
  /// How long follow-on failures wait for the one that they follow from. Longer than peer_timeout,
  /// so that a dead agent, which can report nothing, is found before its peers are blamed.
  std::chrono::milliseconds blame_window{12'000};
  /// From the stop request to the moment when whoever is left is ended.
  std::chrono::milliseconds grace{110'000};
};

/// Node 0's decisions: takes what all agents report and says what all shall do. No I/O; time is an
/// argument.
class Coordinator {
 public:
  Coordinator(CoordinatorOptions options, MonotonicPoint now);

  /// `reports[n]`: the latest of node n; nullopt before it came.
  const Directive& step(const std::vector<std::optional<NodeReport>>& reports, MonotonicPoint now);

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
