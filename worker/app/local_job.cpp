#include "worker/app/local_job.h"

#include "common/api/environment.h"
#include "worker/agent/local_agents.h"
#include "worker/app/store_connector.h"

#include <chrono>

namespace gnn::app {

int run_local_job(const api::GnnJob& job, std::vector<std::string> rank_command) {
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
  return agent::run_agents_locally(local, make_tcp_connector);
}

}  // namespace gnn::app
