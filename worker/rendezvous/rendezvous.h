#pragma once

#include "common/contract.h"
#include "common/result.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace gnn::rendezvous {

/// Reads one environment variable; nullopt if it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view name)>;

/// The environment of this process.
[[nodiscard]] EnvironmentLookup process_environment();

/// The incarnation of a job that a process belongs to. Every key in the store starts with it, so
/// processes of an old pod or round never meet newer ones.
struct Incarnation {
  std::string job_uid;
  int64_t attempt = 0;  ///< numbered by the controller: one gang of pods
  int64_t round = 0;    ///< numbered by the agents: one start of all ranks

  friend bool operator==(const Incarnation&, const Incarnation&) = default;
};

/// "<job uid>/<attempt>/": start of the agents' keys.
[[nodiscard]] std::string attempt_prefix(const Incarnation& incarnation);
/// "<job uid>/<attempt>/<round>/": start of the ranks' keys.
[[nodiscard]] std::string round_prefix(const Incarnation& incarnation);

/// A unique job UID for a run outside a cluster.
[[nodiscard]] std::string fresh_job_uid();

/// A rank's place in its job, from the environment that its agent set.
struct Rendezvous {
  std::string job;
  Incarnation incarnation;
  int64_t rank = 0;
  int64_t world_size = 1;
  int64_t local_rank = 0;
  int64_t local_world_size = 1;
  int64_t node_rank = 0;
  std::string store_host;  ///< empty if world_size is 1
  uint16_t store_port = 0;
  /// Longest wait for the other ranks in one collective.
  std::chrono::milliseconds collective_timeout =
      std::chrono::seconds(contract::kDefaultCollectiveSeconds);
};

/// Reads RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT,
/// GNN_JOB, GNN_JOB_UID, GNN_ATTEMPT and GNN_ROUND. Without RANK it is the only rank of its
/// job.
/// Errors: Configuration, naming the variable, what was expected and what was found.
[[nodiscard]] Result<Rendezvous> parse_rendezvous(const EnvironmentLookup& environment);

/// Longest time-out that a variable may set: a GNNJob's year plus a collective's margin.
inline constexpr int64_t kMaxTimeoutSeconds = 31'536'000 + 60;

/// Reads a decimal number in [least, most]; `fallback` if the variable is not set.
/// Errors: Configuration if it is malformed, out of range, or missing without a fallback.
[[nodiscard]] Result<int64_t> parse_integer(
    const EnvironmentLookup& environment,
    std::string_view name,
    int64_t least,
    int64_t most,
    std::optional<int64_t> fallback = std::nullopt
);

}  // namespace gnn::rendezvous
