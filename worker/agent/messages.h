#pragma once

#include "common/result.h"
#include "worker/training/progress_sink.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What ranks, agents and node 0 tell each other, and its JSON form (docs/worker-contract.md).
/// Decoders accept unknown keys and refuse wrong types: messages may come from a newer or a hostile
/// peer.
namespace gnn::agent {

/// What a rank tells its agent. Sums are since the rank started; everything else is the latest
/// value.
struct RankReport {
  training::Phase phase = training::Phase::Setup;
  int64_t marks =
      0;  ///< Grows with every step and change of phase: a change is a sign of progress.
  /// Whether the rank waits for others now, and how many collectives it has done: tells the rank
  /// that hangs from those that wait for it.
  bool in_collective = false;
  int64_t collectives_done = 0;
  training::StepReport step;  ///< The latest.
  int64_t steps = 0;
  int64_t items = 0;
  int64_t sampled_edges = 0;
  int64_t input_nodes = 0;
  training::StepSeconds seconds;
  std::vector<double> step_durations;        ///< Seconds of each step since the last message.
  std::vector<double> checkpoint_durations;  ///< Seconds of each checkpoint since the last message.
  std::string checkpoint_path{};             ///< Of the newest; empty: this rank has written none.
  int64_t checkpoint_bytes = 0;              ///< Of the newest; 0: this rank has written none.
  int64_t checkpoint_failures = 0;
  std::optional<training::EpochReport> epoch;  ///< The latest.
  std::optional<training::FinalReport> final;
};

/// Why a rank leaves, in its own words.
struct RankFailure {
  std::string kind{};  ///< An ErrorKind as text.
  std::string message{};
};

/// A message of a rank: one of the two is set.
struct RankMessage {
  std::optional<RankReport> report;
  std::optional<RankFailure> failure;
};

[[nodiscard]] std::string encode(const RankReport& report);
[[nodiscard]] std::string encode(const RankFailure& failure);
[[nodiscard]] Result<RankMessage> decode_rank_message(std::string_view text);

/// What an agent sends its ranks to make them checkpoint and leave.
inline constexpr std::string_view kStopMessage = "stop";

/// The first thing that went wrong: who, how and why.
struct Failure {
  int64_t node = 0;
  int64_t rank = -1;      ///< -1: the agent itself.
  int64_t exit_code = 0;  ///< Of the contract; what the culprit's node leaves with.
  int64_t signal = 0;     ///< That killed the rank, or 0.
  /// True for what follows from another failure (a rank that lost its peer): never hides the first
  /// one.
  bool follow_on = false;
  std::string reason{
  };  ///< One word: "Configuration", "Killed", "OutOfMemory", "Hung", "PeerLost", …
  std::string message{};
  std::string stderr_tail{};

  friend bool operator==(const Failure&, const Failure&) = default;
};

/// What an agent is doing.
enum class NodePhase {
  Ready,      ///< At the barrier of `round`, no ranks running.
  Running,    ///< Its ranks run.
  Done,       ///< All its ranks ended well.
  Stopped,    ///< All its ranks ended well or "preempted" after a stop.
  Failed,     ///< A rank of it failed in this round.
  Left,       ///< Past the final barrier.
  Unstarted,  ///< Told to stop before it had started its ranks: nobody's ranks can meet any more.
};

/// What each agent writes for all to read, with a counter that shows it is alive.
struct NodeReport {
  int64_t node = 0;
  int64_t beat = 0;
  int64_t round = 0;
  NodePhase phase = NodePhase::Ready;
  bool stop_requested = false;  ///< It got SIGTERM.
  double items_per_second = 0;  ///< Of its ranks together.
  std::optional<Failure> failure{};

  friend bool operator==(const NodeReport&, const NodeReport&) = default;
};

[[nodiscard]] std::string encode(const NodeReport& report);
[[nodiscard]] Result<NodeReport> decode_node_report(std::string_view text);

/// What all agents shall do.
enum class Action {
  Prepare,  ///< End the ranks of earlier rounds and come to the barrier of `round`.
  Run,      ///< Run the ranks of `round`.
  Stop,     ///< Make the ranks checkpoint and leave.
  Leave,    ///< Leave with `exit_code`.
};

/// Node 0's decision: the only thing that agents act on, so they can't disagree.
struct Directive {
  Action action = Action::Prepare;
  int64_t round = 0;
  int64_t exit_code = 0;             ///< With Leave.
  std::string message{};             ///< With Leave: why.
  std::optional<Failure> failure{};  ///< The culprit of the last failed round, or of the end.

  friend bool operator==(const Directive&, const Directive&) = default;
};

[[nodiscard]] std::string encode(const Directive& directive);
[[nodiscard]] Result<Directive> decode_directive(std::string_view text);

/// Keeps printable ASCII, tabs and line ends; any other byte becomes a question mark. At most
/// `most` bytes.
[[nodiscard]] std::string printable(std::string_view text, size_t most);

}  // namespace gnn::agent
