#include "common/contract.h"
#include "common/log.h"
#include "worker/agent/final_result.h"
#include "worker/agent/limits.h"
#include "worker/agent/server_pod.h"
#include "worker/app/command.h"
#include "worker/app/job_file.h"
#include "worker/app/job_options.h"
#include "worker/app/server_directory.h"
#include "worker/app/store_connector.h"
#include "worker/data/unreadable_mapping.h"
#include "worker/loader/tensor_memory.h"
#include "worker/rendezvous/rendezvous.h"
#include "worker/servers/directory.h"
#include "worker/tasks/serve.h"

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

class TaskServing final : public agent::Serving {
 public:
  explicit TaskServing(std::unique_ptr<tasks::RunningServer> server) : server_(std::move(server)) {}
  [[nodiscard]] progress::ServerData data() const override { return server_->stats(); }
  void drain(Duration limit) override { server_->drain(limit); }

 private:
  std::unique_ptr<tasks::RunningServer> server_;
};

Result<std::unique_ptr<agent::Serving>> serve(
    const api::GnnJob& job,
    const agent::ServerOptions& options,
    std::shared_ptr<servers::Directory> directory,
    const agent::ServingStart& start
) {
  data::name_unreadable_mappings();
  const rendezvous::EnvironmentLookup environment = rendezvous::process_environment();
  GNN_ASSIGN_OR_RETURN(const int64_t cpus, agent::cpus_of_rank(environment, 1));
  GNN_ASSIGN_OR_RETURN(const tasks::DataEndpoint endpoint, parse_data_endpoint(environment, {}));
  GNN_ASSIGN_OR_RETURN(const Duration timeout, server_timeout_of(job.spec, environment));
  at::set_num_threads(static_cast<int>(cpus));
  loader::keep_tensor_memory();
  GNN_ASSIGN_OR_RETURN(
      auto server,
      tasks::serve(
          job,
          {.server = options.server(),
           .restart = options.restart,
           .nodes = options.pod.nodes,
           .processes_per_node = options.pod.processes_per_node,
           .job_uid = options.pod.job_uid,
           .data_endpoint = endpoint,
           .num_cpus = cpus,
           .memory_bytes = agent::usable_memory(),
           .peer_timeout = options.pod.peer_timeout,
           .server_timeout = timeout,
           .directory = std::move(directory),
           .loading = start.loading,
           .stop = start.stop,
           .on_listening = start.on_listening}
      )
  );
  return std::make_unique<TaskServing>(std::move(server));
}

int fail_with(const agent::ServerOptions& options, const Error& error) {
  const int code = contract::exit_code_for(error.kind);
  log_error(error.message, {{"kind", to_string(error.kind)}, {"exit_code", code}});
  const agent::NodeResult result{.exit_code = code, .message = error.message};
  if (const Status written = agent::write_result(options.pod, result); !written)
    log_warning("cannot write the final result", {{"why", written.error().message}});
  return code;
}

int run_server(const JobOptions& given) {
  const rendezvous::EnvironmentLookup environment = rendezvous::process_environment();
  agent::ServerOptions unknown;
  unknown.pod.termination_log =
      environment(contract::kEnvTerminationLog).value_or(std::string(contract::kTerminationLog));
  if (const Status status = apply_console_options(given.console); !status)
    return fail_with(unknown, status.error());
  const auto options = agent::parse_server_options(environment);
  if (!options) return fail_with(unknown, options.error());
  const Result<api::GnnJob> job = load_job(given.config, given.overrides);
  if (!job) return fail_with(*options, job.error());
  if (!job->spec.servers || !job->spec.placement)
    return fail_with(
        *options, {ErrorKind::Configuration, "spec.servers: expected in a job that has servers"}
    );
  const auto directory = std::make_shared<servers::Directory>();
  return agent::run_server_pod(
      *options,
      job->spec.placement->partitions,
      {.connect = make_tcp_joiner(options->pod),
       .serve = [&](const agent::ServingStart& start
                ) { return serve(*job, *options, directory, start); },
       .on_servers = update_of(directory)}
  );
}

}  // namespace

void add_server_command(CLI::App& root, Subcommand& chosen) {
  auto options = std::make_shared<JobOptions>();
  CLI::App* command = root.add_subcommand(
      "server",
      "Make batches for a job's ranks in a pod, as the environment says (docs/worker-contract.md)"
  );
  add_process_options(*command, *options);
  command->callback([options, &chosen] { chosen = [options] { return run_server(*options); }; });
}

}  // namespace gnn::app
