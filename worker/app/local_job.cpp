#include "worker/app/local_job.h"

#include "common/api/environment.h"
#include "worker/agent/local_run.h"
#include "worker/app/store_connector.h"

#include <chrono>

namespace gnn::app {

int run_local_job(const api::GnnJob& job, std::vector<std::string> rank_command) {
  agent::LocalRun run;
  run.job = job.metadata.name;
  run.nodes = job.spec.workers.nodes;
  run.processes_per_node = job.spec.workers.processes_per_node;
  run.rounds_left = job.spec.run_policy.max_restarts;
  if (const auto& pod = job.spec.workers.pod_template)
    run.grace = std::chrono::seconds(pod->termination_grace_period_seconds);
  for (const api::EnvVar& timeout : api::timeout_environment(job.spec.training.timeouts))
    run.environment[timeout.name] = timeout.value.value_or("");
  run.rank_command = std::move(rank_command);
  return agent::run_local_job(run, make_tcp_connector);
}

}  // namespace gnn::app
