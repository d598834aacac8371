#pragma once

#include "common/result.h"
#include "worker/agent/limits.h"
#include "worker/distributed/comm/rendezvous.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace gnn::agent {

/// After how long a silence or standstill a rank counts as hung.
struct RankTimeouts {
  std::chrono::milliseconds heartbeat{30'000};  ///< Silence of a rank that spoke before.
  std::chrono::milliseconds setup{600'000};     ///< No progress in each stage.
  std::chrono::milliseconds step{180'000};
  std::chrono::milliseconds evaluation{600'000};
  std::chrono::milliseconds checkpoint{420'000};
};

/// All that an agent is told, checked.
struct AgentOptions {
  std::string job;
  std::string job_uid;
  int64_t attempt = 0;
  int64_t rounds_left = 0;
  int64_t node = 0;
  int64_t nodes = 1;
  int64_t processes_per_node = 1;
  std::chrono::milliseconds grace{120'000};
  std::string termination_log;
  std::string http_address;  ///< host:port; port 0 takes a free one.
  std::string store_host;
  uint16_t store_port = 0;
  std::chrono::milliseconds rendezvous_timeout{600'000};
  std::chrono::milliseconds peer_timeout{10'000};
  RankTimeouts timeouts;
  std::chrono::milliseconds collective_timeout{600'000};  ///< The ranks' own.
  /// Program and arguments of a rank.
  std::vector<std::string> rank_command;
  CgroupFiles cgroup;
  /// CPUs of this node; 0: its CPU limit. Smaller where nodes share a machine.
  int64_t cpus = 0;

  [[nodiscard]] comm::Incarnation incarnation(int64_t round) const {
    return {.job_uid = job_uid, .attempt = attempt, .round = round};
  }
  [[nodiscard]] int64_t world_size() const { return nodes * processes_per_node; }
};

/// Parses the environment that the controller set (docs/worker-contract.md).
/// Errors: Configuration, naming the variable, what was expected and what was found.
[[nodiscard]] Result<AgentOptions> parse_agent_options(
    const comm::EnvironmentLookup& environment, std::vector<std::string> rank_command
);

}  // namespace gnn::agent
