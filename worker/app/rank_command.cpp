#include "common/contract.h"
#include "common/log.h"
#include "worker/agent/agent_link.h"
#include "worker/app/command.h"
#include "worker/app/console.h"
#include "worker/app/job_file.h"
#include "worker/app/job_options.h"
#include "worker/app/run_rank.h"
#include "worker/app/run_tracked.h"
#include "worker/app/server_directory.h"
#include "worker/progress/console_sink.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

namespace gnn::app {
namespace {

// What a rank needs before its task, checked.
struct RankSetup {
  rendezvous::Rendezvous rendezvous;
  std::shared_ptr<progress::CollectiveActivity> activity;
  std::unique_ptr<agent::AgentLink> link;  // null without an agent
  std::shared_ptr<servers::Directory> servers = std::make_shared<servers::Directory>();
  std::string checked_version;
};

Result<RankSetup> set_up(const std::shared_ptr<StopToken>& stop) {
  const rendezvous::EnvironmentLookup environment = rendezvous::process_environment();
  RankSetup setup;
  setup.activity = std::make_shared<progress::CollectiveActivity>();
  GNN_ASSIGN_OR_RETURN(
      setup.link,
      agent::AgentLink::from_environment(
          environment, setup.activity, stop, update_of(setup.servers)
      )
  );
  GNN_ASSIGN_OR_RETURN(setup.rendezvous, rendezvous::parse_rendezvous(environment));
  std::string& job_uid = setup.rendezvous.incarnation.job_uid;
  if (job_uid.empty()) job_uid = rendezvous::fresh_job_uid();
  setup.checked_version = environment(contract::kEnvCheckedData).value_or("");
  return setup;
}

int fail_with(const Error& error, agent::AgentLink* link) {
  const int code = contract::exit_code_for(error.kind);
  log_error(error.message, {{"kind", to_string(error.kind)}, {"exit_code", code}});
  if (link != nullptr) link->send_failure(error);
  return code;
}

int run(const JobOptions& options) {
  if (const Status status = apply_console_options(options.console); !status) {
    return fail_with(status.error(), nullptr);
  }
  const auto stop = std::make_shared<StopToken>();
  stop_on_signals(*stop);
  const Result<RankSetup> setup = set_up(stop);
  if (!setup) return fail_with(setup.error(), nullptr);
  const Result<api::GnnJob> job = load_job(options.config, options.overrides);
  if (!job) return fail_with(job.error(), setup->link.get());

  // All ranks have the same reports: rank 0 prints them.
  std::unique_ptr<progress::ProgressSink> console;
  std::vector<progress::ProgressSink*> sinks;
  if (setup->link) sinks.push_back(setup->link.get());
  if (setup->rendezvous.rank == 0) {
    console = make_console_sink(options.console, job->spec.training);
    sinks.push_back(console.get());
  }
  progress::TeeSink progress(std::move(sinks));
  const Result<tasks::TaskResult> outcome = run_tracked(
      *job,
      {.rendezvous = setup->rendezvous,
       .progress = progress,
       .stop = *stop,
       .activity = setup->activity,
       .servers = setup->servers,
       .checked_version = setup->checked_version,
       .on_checked_version =
           [link = setup->link.get()](const std::string& version) {
             if (link != nullptr) link->send_checked_version(version);
           }},
      {.log_steps = log_steps_of(options.console, job->spec.training),
       .on_meter =
           [link = setup->link.get()](const auto& meter) {
             if (link != nullptr) link->on_tracking_meter(meter);
           }}
  );
  if (!outcome) return fail_with(outcome.error(), setup->link.get());
  return exit_code_of(outcome);
}

}  // namespace

void add_rank_command(CLI::App& root, Subcommand& chosen) {
  auto options = std::make_shared<JobOptions>();
  CLI::App* command = root.add_subcommand("rank", "Run one rank of a job; its agent starts it");
  add_process_options(*command, *options);
  command->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace gnn::app
