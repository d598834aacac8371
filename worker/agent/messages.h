#pragma once

#include "common/result.h"
#include "worker/progress/progress_sink.h"
#include "worker/progress/tracking_data.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The messages between ranks, agents and node 0, and their JSON form (docs/worker-contract.md).
/// Decoders accept unknown keys and refuse wrong types: the sender may be newer, or hostile.
namespace gnn::agent {

/// Longest name of a version of data.
inline constexpr size_t kLongestVersion = 128;

/// What a rank reports to its agent: counters since the rank started, otherwise the latest values.
struct RankReport {
  progress::Phase phase = progress::Phase::Setup;
  int64_t marks = 0;  ///< grows with each sign of progress, such as a step or a new phase
  /// Whether the rank is waiting in a collective, and how many it has completed: tells a rank that
  /// hangs from those that wait for it.
  bool in_collective = false;
  int64_t collectives_done = 0;
  progress::StepReport step;  ///< latest step
  int64_t steps = 0;
  int64_t items = 0;
  int64_t sampled_edges = 0;
  int64_t input_nodes = 0;
  progress::StepSeconds seconds;
  std::vector<double> step_durations;  ///< of each step since the last message, in seconds
  /// Of each checkpoint since the last message, in seconds.
  std::vector<double> checkpoint_durations;
  std::string checkpoint_path{};  ///< newest checkpoint; empty if this rank has written none
  int64_t checkpoint_bytes = 0;   ///< of the newest checkpoint; 0 if none
  int64_t checkpoint_failures = 0;
  /// Of the data that this rank has found right; at most kLongestVersion bytes, or empty.
  std::string checked_version{};
  std::optional<progress::EpochReport> epoch;  ///< latest epoch
  std::optional<progress::FinalReport> final;
  std::optional<progress::RemoteData> remote;  ///< where nodes read from each other
  std::optional<progress::ServedData> served;  ///< where servers make the batches
  progress::TrackingData tracking{};           ///< of rank 0, where trackers are told
};

/// Why a rank exits, as the rank itself says.
struct RankFailure {
  std::string kind{};  ///< name of an ErrorKind
  std::string message{};
};

/// A message from a rank: exactly one of the two is set.
struct RankMessage {
  std::optional<RankReport> report;
  std::optional<RankFailure> failure;
};

[[nodiscard]] std::string encode(const RankReport& report);
[[nodiscard]] std::string encode(const RankFailure& failure);
[[nodiscard]] Result<RankMessage> decode_rank_message(std::string_view text);

/// An agent sends it to its ranks: write a checkpoint and exit.
inline constexpr std::string_view kStopMessage = "stop";

/// Sampling servers of a job: as many as spec.servers.nodes may say.
inline constexpr int64_t kMostServers = 1024;
/// Longest "host:port" of a server.
inline constexpr size_t kLongestServerAddress = 80;
/// Longest that a server writes to the store.
inline constexpr size_t kLongestServerReport = 512;
/// Longest that an agent sends its ranks: all servers.
inline constexpr size_t kLongestAgentMessage = size_t{128} * 1024;

/// A sampling server that takes part.
struct LiveServer {
  int64_t server = 0;
  int64_t restart = 0;    ///< how many pods of this server there were before
  std::string address{};  ///< "10.0.0.7:29600", where it serves

  friend bool operator==(const LiveServer&, const LiveServer&) = default;
};

/// What each server writes to the store, once it serves. `beat` grows while the server is alive.
struct ServerReport {
  LiveServer server;
  int64_t beat = 0;
  bool leaving = false;  ///< it takes no new request

  friend bool operator==(const ServerReport&, const ServerReport&) = default;
};

[[nodiscard]] std::string encode(const ServerReport& report);
/// Errors: Internal if it is no report of `server`, or breaks a bound.
[[nodiscard]] Result<ServerReport> decode_server_report(std::string_view text, int64_t server);

/// A message from an agent to its ranks; absent and false: one that this rank does not know.
struct AgentMessage {
  bool stop = false;
  std::optional<std::vector<LiveServer>> servers{};  ///< all that take part from now on
};

/// The message that names the servers.
[[nodiscard]] std::string encode(const std::vector<LiveServer>& servers);
/// Errors: Internal if it breaks a bound.
[[nodiscard]] Result<AgentMessage> decode_agent_message(std::string_view text);

/// The failure that came first: who failed, how and why.
struct Failure {
  int64_t node = 0;
  int64_t rank = -1;      ///< -1: the agent itself
  int64_t exit_code = 0;  ///< of the contract; the culprit's node exits with it
  int64_t signal = 0;     ///< signal that killed the rank, or 0
  /// True if another failure caused this one, as when a rank lost its peer. Such a failure never
  /// replaces the one that came first.
  bool follow_on = false;
  /// One word: "Configuration", "Killed", "OutOfMemory", "Hung", "PeerLost", ….
  std::string reason{};
  std::string message{};
  std::string stderr_tail{};

  friend bool operator==(const Failure&, const Failure&) = default;
};

/// What an agent is doing.
enum class AgentPhase {
  Ready,      ///< at the barrier of `round`; no rank runs
  Running,    ///< its ranks run
  Done,       ///< all its ranks exited with 0
  Stopped,    ///< all its ranks exited with 0 or Preempted, after a stop
  Failed,     ///< one of its ranks failed in this round
  Left,       ///< past the final barrier
  Unstarted,  ///< stopped before it started its ranks: the others' ranks wait in vain
};

/// What each agent writes to the store. `beat` grows: the agent is alive, and so is the thread that
/// supervises its ranks.
struct NodeReport {
  int64_t node = 0;
  int64_t beat = 0;
  int64_t round = 0;
  AgentPhase phase = AgentPhase::Ready;
  bool stop_requested = false;  ///< it received SIGTERM
  double items_per_second = 0;  ///< sum over its ranks
  int64_t marks = 0;  ///< sum over its ranks in `round`; grows while any of them progresses
  std::optional<Failure> failure{};

  friend bool operator==(const NodeReport&, const NodeReport&) = default;
};

/// The marks of all ranks in `round`, from each node's latest report.
[[nodiscard]] int64_t marks_of_round(
    const std::vector<std::optional<NodeReport>>& reports, int64_t round
);

[[nodiscard]] std::string encode(const NodeReport& report);
[[nodiscard]] Result<NodeReport> decode_node_report(std::string_view text);

/// What a directive tells all agents to do.
enum class DirectiveKind {
  Prepare,  ///< kill the ranks of earlier rounds and wait at the barrier of `round`
  Run,      ///< start the ranks of `round`
  Stop,     ///< make the ranks write a checkpoint and exit
  Leave,    ///< exit with `exit_code`
};

/// Node 0's decision. Agents act on nothing else, so they cannot disagree.
struct Directive {
  DirectiveKind kind = DirectiveKind::Prepare;
  int64_t round = 0;
  int64_t exit_code = 0;             ///< with Leave
  std::string message{};             ///< with Leave: why
  std::optional<Failure> failure{};  ///< of the last failed round, or of the end
  /// By node, for those whose pods were replaced: which pod takes part, by its GNN_NODE_RESTART. The
  /// directive is not for the pods before it, nor for those after it.
  std::map<int64_t, int64_t> restarts{};
  /// The sampling servers that take part. A change of them starts or stops nothing.
  std::vector<LiveServer> servers{};

  friend bool operator==(const Directive&, const Directive&) = default;
};

[[nodiscard]] std::string encode(const Directive& directive);
[[nodiscard]] Result<Directive> decode_directive(std::string_view text);

}  // namespace gnn::agent
