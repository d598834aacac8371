#pragma once

#include "common/result.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace gnn::comm {

/// Reads one environment variable; nullopt when it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view name)>;

/// The environment of this process.
[[nodiscard]] EnvironmentLookup process_environment();

/// Which incarnation of which job a process belongs to. Every key of the store starts with it, so
/// an old pod or an old rank can't meet a new one.
struct Incarnation {
  std::string job_uid;
  int64_t attempt = 0;  ///< The controller's: one set of pods.
  int64_t round = 0;    ///< The agents': in-place restarts inside the attempt.

  friend bool operator==(const Incarnation&, const Incarnation&) = default;
};

/// "<job uid>/<attempt>/": what the agents of an attempt share.
[[nodiscard]] std::string attempt_prefix(const Incarnation& incarnation);
/// "<job uid>/<attempt>/<round>/": what the ranks of a round share.
[[nodiscard]] std::string round_prefix(const Incarnation& incarnation);

/// The uid of a run by hand, which no cluster named: no other run has it.
[[nodiscard]] std::string fresh_job_uid();

/// Where a rank stands in its job: parsed once from the environment that its agent set, and
/// checked.
struct Rendezvous {
  std::string job;
  Incarnation incarnation;
  int64_t rank = 0;
  int64_t world_size = 1;
  int64_t local_rank = 0;
  int64_t local_world_size = 1;
  int64_t node_rank = 0;
  std::string store_host;  ///< Empty when world_size is 1 and nothing has to be met.
  uint16_t store_port = 0;
  /// Longest wait for the other ranks in one collective.
  std::chrono::milliseconds collective_timeout{600'000};
};

/// Parses RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT,
/// GNN_JOB, GNN_JOB_UID, GNN_ATTEMPT and GNN_ROUND. Without RANK it is the only process of a job of
/// one. Errors: Configuration, naming the variable, what was expected and what was found.
[[nodiscard]] Result<Rendezvous> parse_rendezvous(const EnvironmentLookup& environment);

/// Longest time-out that a variable may set: a GNNJob's year, and a collective's margin above it.
inline constexpr int64_t kMaxTimeoutSeconds = 31'536'000 + 60;

/// A variable that must be a decimal number in [least, most]; `fallback` when it is not set, or an
/// error when there is no fallback.
[[nodiscard]] Result<int64_t> parse_integer(
    const EnvironmentLookup& environment,
    std::string_view name,
    int64_t least,
    int64_t most,
    std::optional<int64_t> fallback = std::nullopt
);

}  // namespace gnn::comm
