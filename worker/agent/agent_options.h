#pragma once

#include "common/contract.h"
#include "common/result.h"
#include "worker/agent/limits.h"
#include "worker/rendezvous/rendezvous.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gnn::agent {

/// How long a rank may be silent, or without progress, before it counts as hung.
struct RankTimeouts {
  /// Longest silence of a rank that has reported before.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(contract::kDefaultHeartbeatSeconds);
  // No progress in each stage.
  std::chrono::milliseconds setup = std::chrono::seconds(contract::kDefaultSetupSeconds);
  std::chrono::milliseconds step = std::chrono::seconds(contract::kDefaultStepSeconds);
  std::chrono::milliseconds evaluation = std::chrono::seconds(contract::kDefaultEvaluationSeconds);
  std::chrono::milliseconds checkpoint = std::chrono::seconds(contract::kDefaultCheckpointSeconds);
};

/// The agent's configuration, checked.
struct AgentOptions {
  std::string job;
  std::string job_uid;
  int64_t attempt = 0;
  int64_t rounds_left = 0;
  int64_t node = 0;
  int64_t nodes = 1;
  int64_t processes_per_node = 1;
  /// How many pods of this node this one has replaced; absent if the controller replaces none alone.
  std::optional<int64_t> node_restart{};
  std::chrono::milliseconds grace = std::chrono::seconds(contract::kDefaultGraceSeconds);
  std::string termination_log;
  std::string http_address;  ///< host:port; port 0 takes a free one
  std::string store_host;
  uint16_t store_port = 0;
  std::chrono::milliseconds rendezvous_timeout =
      std::chrono::seconds(contract::kDefaultRendezvousSeconds);
  std::chrono::milliseconds peer_timeout = std::chrono::seconds(contract::kDefaultPeerSeconds);
  RankTimeouts timeouts;
  /// Longest wait of a rank in one collective.
  std::chrono::milliseconds collective_timeout =
      std::chrono::seconds(contract::kDefaultCollectiveSeconds);
  /// Program and arguments of a rank.
  std::vector<std::string> rank_command;
  CgroupFiles cgroup;
  /// CPUs for this node's ranks; 0 means its CPU limit. Set where nodes share a machine.
  int64_t cpus = 0;
  /// CUDA_VISIBLE_DEVICES of this node's ranks; nullopt leaves the agent's own. Set where nodes
  /// share a machine.
  std::optional<std::string> visible_gpus{};

  [[nodiscard]] rendezvous::Incarnation incarnation(int64_t round) const {
    return {.job_uid = job_uid, .attempt = attempt, .round = round};
  }
  [[nodiscard]] int64_t world_size() const { return nodes * processes_per_node; }
};

/// Reads what the controller tells every pod of a job: its names, and where it reports.
/// Errors: as parse_agent_options().
[[nodiscard]] Result<AgentOptions> parse_pod_options(
    const rendezvous::EnvironmentLookup& environment
);

/// The same and the attempt, for a pod that prepares data.
/// Errors: as parse_agent_options().
[[nodiscard]] Result<AgentOptions> parse_prepare_options(
    const rendezvous::EnvironmentLookup& environment
);

/// Reads the environment that the controller sets (docs/worker-contract.md).
/// Errors: Configuration, naming the variable, what was expected and what was found.
[[nodiscard]] Result<AgentOptions> parse_agent_options(
    const rendezvous::EnvironmentLookup& environment, std::vector<std::string> rank_command
);

}  // namespace gnn::agent
