#include "worker/agent/agent_options.h"

#include "common/api/fields.h"
#include "common/contract.h"
#include "worker/agent/messages.h"
#include "worker/agent/server_options.h"

namespace gnn::agent {
namespace {

using rendezvous::EnvironmentLookup;
using rendezvous::parse_integer;

constexpr int64_t kMost = 1'000'000;

Result<std::chrono::milliseconds> parse_seconds(
    const EnvironmentLookup& environment,
    std::string_view name,
    int64_t fallback,
    int64_t most = rendezvous::kMaxTimeoutSeconds
) {
  GNN_ASSIGN_OR_RETURN(const int64_t value, parse_integer(environment, name, 1, most, fallback));
  return std::chrono::seconds(value);
}

Result<std::string> parse_text(const EnvironmentLookup& environment, std::string_view name) {
  auto value = environment(name);
  if (!value || value->empty())
    return fail(
        ErrorKind::Configuration, "environment variable " + std::string(name) + " is not set"
    );
  return *value;
}

Status parse_timeouts(const EnvironmentLookup& environment, AgentOptions& options) {
  namespace c = contract;
  GNN_ASSIGN_OR_RETURN(
      options.rendezvous_timeout,
      parse_seconds(environment, c::kEnvRendezvousTimeout, c::kDefaultRendezvousSeconds)
  );
  auto& timeouts = options.timeouts;
  GNN_ASSIGN_OR_RETURN(
      timeouts.heartbeat,
      parse_seconds(environment, c::kEnvHeartbeatTimeout, c::kDefaultHeartbeatSeconds)
  );
  GNN_ASSIGN_OR_RETURN(
      timeouts.setup, parse_seconds(environment, c::kEnvSetupTimeout, c::kDefaultSetupSeconds)
  );
  GNN_ASSIGN_OR_RETURN(
      timeouts.step, parse_seconds(environment, c::kEnvStepTimeout, c::kDefaultStepSeconds)
  );
  GNN_ASSIGN_OR_RETURN(
      timeouts.evaluation,
      parse_seconds(environment, c::kEnvEvaluationTimeout, c::kDefaultEvaluationSeconds)
  );
  GNN_ASSIGN_OR_RETURN(
      timeouts.checkpoint,
      parse_seconds(environment, c::kEnvCheckpointTimeout, c::kDefaultCheckpointSeconds)
  );
  GNN_ASSIGN_OR_RETURN(
      options.collective_timeout,
      parse_seconds(environment, c::kEnvCollectiveTimeout, c::kDefaultCollectiveSeconds)
  );
  return {};
}

// What an agent and a sampling server have in common: the workers, the store and how both are left.
Status parse_workers(const EnvironmentLookup& environment, AgentOptions& options) {
  namespace c = contract;
  GNN_ASSIGN_OR_RETURN(options.nodes, parse_integer(environment, c::kEnvNnodes, 1, kMost));
  GNN_ASSIGN_OR_RETURN(
      options.processes_per_node, parse_integer(environment, c::kEnvNprocPerNode, 1, 1024)
  );
  GNN_ASSIGN_OR_RETURN(options.store_host, parse_text(environment, c::kEnvMasterAddr));
  GNN_ASSIGN_OR_RETURN(
      const int64_t port, parse_integer(environment, c::kEnvMasterPort, 1, 65535, c::kStorePort)
  );
  options.store_port = static_cast<uint16_t>(port);
  GNN_ASSIGN_OR_RETURN(
      options.peer_timeout,
      parse_seconds(environment, c::kEnvPeerTimeout, c::kDefaultPeerSeconds, api::kMaxPeerSeconds)
  );
  GNN_ASSIGN_OR_RETURN(
      options.grace, parse_seconds(environment, c::kEnvGraceSeconds, c::kDefaultGraceSeconds)
  );
  return {};
}

}  // namespace

Result<AgentOptions> parse_pod_options(const EnvironmentLookup& environment) {
  namespace c = contract;
  AgentOptions options;
  GNN_ASSIGN_OR_RETURN(
      const int64_t version, parse_integer(environment, c::kEnvContract, 0, kMost)
  );
  if (version != c::kVersion)
    return fail(
        ErrorKind::Configuration,
        std::string(c::kEnvContract) + " is " + std::to_string(version) +
            ", but this worker supports only version " + std::to_string(c::kVersion)
    );
  GNN_ASSIGN_OR_RETURN(options.job, parse_text(environment, c::kEnvJob));
  GNN_ASSIGN_OR_RETURN(options.job_uid, parse_text(environment, c::kEnvJobUid));
  if (options.job_uid.find('/') != std::string::npos)
    return fail(ErrorKind::Configuration, std::string(c::kEnvJobUid) + " must not contain '/'");
  options.termination_log =
      environment(c::kEnvTerminationLog).value_or(std::string(c::kTerminationLog));
  options.http_address =
      environment(c::kEnvHttpAddress).value_or(":" + std::to_string(c::kHttpPort));
  return options;
}

Result<AgentOptions> parse_prepare_options(const EnvironmentLookup& environment) {
  GNN_ASSIGN_OR_RETURN(AgentOptions options, parse_pod_options(environment));
  GNN_ASSIGN_OR_RETURN(
      options.attempt, parse_integer(environment, contract::kEnvAttempt, 0, kMost)
  );
  return options;
}

Result<AgentOptions> parse_agent_options(
    const EnvironmentLookup& environment, std::vector<std::string> rank_command
) {
  namespace c = contract;
  GNN_ASSIGN_OR_RETURN(AgentOptions options, parse_prepare_options(environment));
  GNN_ASSIGN_OR_RETURN(
      options.rounds_left, parse_integer(environment, c::kEnvRoundsLeft, 0, kMost, 0)
  );
  GNN_RETURN_IF_ERROR(parse_workers(environment, options));
  GNN_ASSIGN_OR_RETURN(
      options.node, parse_integer(environment, c::kEnvNodeRank, 0, options.nodes - 1)
  );
  if (environment(c::kEnvNodeRestart)) {
    GNN_ASSIGN_OR_RETURN(
        options.node_restart, parse_integer(environment, c::kEnvNodeRestart, 0, kMost)
    );
  }
  GNN_RETURN_IF_ERROR(parse_timeouts(environment, options));
  options.rank_command = std::move(rank_command);
  return options;
}

Result<ServerOptions> parse_server_options(const EnvironmentLookup& environment) {
  namespace c = contract;
  ServerOptions options;
  GNN_ASSIGN_OR_RETURN(options.pod, parse_pod_options(environment));
  GNN_RETURN_IF_ERROR(parse_workers(environment, options.pod));
  GNN_ASSIGN_OR_RETURN(
      options.pod.node, parse_integer(environment, c::kEnvServer, 0, kMostServers - 1)
  );
  GNN_ASSIGN_OR_RETURN(options.restart, parse_integer(environment, c::kEnvServerRestart, 0, kMost));
  return options;
}

}  // namespace gnn::agent
