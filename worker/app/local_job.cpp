#include "worker/app/local_job.h"

#include "common/api/environment.h"
#include "common/contract.h"
#include "common/log.h"
#include "worker/agent/local_agents.h"
#include "worker/app/private_file.h"
#include "worker/app/store_connector.h"
#include "worker/rpc/key.h"
#include "worker/tasks/part_inputs.h"

#include <chrono>
#include <optional>

namespace gnn::app {

namespace {

// Nodes or servers that serve partitions, each on a free port, with a key of this run.
Result<PrivateFile> set_up_data(agent::LocalJob& local) {
  GNN_ASSIGN_OR_RETURN(const rpc::Key key, rpc::Key::draw());
  GNN_ASSIGN_OR_RETURN(PrivateFile file, PrivateFile::create("gnn-data-key", key.to_hex() + "\n"));
  local.rank_environment[std::string(contract::kEnvDataKeyFile)] = file.path();
  local.rank_environment[std::string(contract::kEnvDataAddress)] = "127.0.0.1:0";
  return file;
}

}  // namespace

int run_local_job(
    const api::GnnJob& job,
    std::vector<std::string> rank_command,
    std::vector<std::string> server_command
) {
  agent::LocalJob local;
  local.job = job.metadata.name;
  local.nodes = job.spec.workers.nodes;
  local.processes_per_node = job.spec.workers.processes_per_node;
  local.gpus_per_process = job.spec.workers.gpus_per_process;
  local.rounds_left = job.spec.run_policy.max_restarts;
  if (const auto& pod = job.spec.workers.pod_template)
    local.grace = std::chrono::seconds(pod->termination_grace_period_seconds);
  for (const api::EnvVar& timeout : api::timeout_environment(job.spec.training.timeouts))
    local.environment[timeout.name] = timeout.value.value_or("");
  local.rank_command = std::move(rank_command);
  local.server_command = std::move(server_command);
  if (job.spec.servers && job.spec.placement)
    local.servers = job.spec.servers->nodes.value_or(job.spec.placement->partitions);
  std::optional<PrivateFile> key;
  if (job.spec.servers || tasks::is_partitioned(job.spec.placement)) {
    Result<PrivateFile> made = set_up_data(local);
    if (!made) {
      log_error(made.error().message);
      return contract::exit_code_for(made.error().kind);
    }
    key = std::move(*made);
  }
  return agent::run_agents_locally(local, make_tcp_connector);
}

}  // namespace gnn::app
