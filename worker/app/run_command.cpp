#include "common/contract.h"
#include "common/log.h"
#include "worker/app/command.h"
#include "worker/app/console.h"
#include "worker/app/job_file.h"
#include "worker/app/local_job.h"
#include "worker/app/prepare_data.h"
#include "worker/app/run_rank.h"
#include "worker/data/readers/package_list.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace gnn::app {
namespace {

struct RunArguments {
  ConsoleChoice console;
  std::string manifest;
  std::vector<std::string> overrides;
};

int fail_with(const Error& error) {
  const int code = contract::exit_code_for(error.kind);
  log_error(error.message, {{"kind", to_string(error.kind)}, {"exit_code", code}});
  return code;
}

// What a pod of its own does in a cluster.
Status prepare_here(const api::GnnJob& job) {
  const std::unique_ptr<ProgressBar> progress = make_progress_bar(stderr);
  return prepare_data(
      job,
      {.out = std::cout,
       .progress = *progress,
       .dumpavail = &data::run_dumpavail,
       .await_writer = {}}
  );
}

// A job of one rank runs in this process, without an agent.
int run_single(const api::GnnJob& job, const RunArguments& arguments) {
  StopToken stop;
  stop_on_signals(stop);
  const std::unique_ptr<progress::ProgressSink> console =
      make_console_sink(arguments.console, job.spec.training);
  rendezvous::Rendezvous alone;
  alone.job = job.metadata.name;
  alone.incarnation.job_uid = rendezvous::fresh_job_uid();
  const Result<tasks::TaskResult> outcome =
      run_rank(job, {.rendezvous = alone, .progress = *console, .stop = stop, .activity = nullptr});
  if (!outcome) return fail_with(outcome.error());
  return exit_code_of(outcome);
}

// The command of a rank: this program with the same manifest.
std::vector<std::string> rank_command(const RunArguments& arguments) {
  std::vector<std::string> command = {
      "/proc/self/exe",
      "rank",
      "--config",
      arguments.manifest,
      "--log-format",
      arguments.console.log_format,
      "--log-level",
      arguments.console.log_level
  };
  if (arguments.console.log_steps) {
    command.emplace_back("--log-steps");
    command.push_back(std::to_string(*arguments.console.log_steps));
  }
  for (const std::string& text : arguments.overrides) {
    command.push_back("--set");
    command.push_back(text);
  }
  return command;
}

int run(const RunArguments& arguments) {
  if (const Status status = apply_console_options(arguments.console); !status)
    return fail_with(status.error());
  const Result<api::GnnJob> job = load_job(arguments.manifest, arguments.overrides);
  if (!job) return fail_with(job.error());
  if (const Status prepared = prepare_here(*job); !prepared) return fail_with(prepared.error());
  if (job->spec.workers.nodes == 1 && job->spec.workers.processes_per_node == 1)
    return run_single(*job, arguments);
  return run_local_job(*job, rank_command(arguments));
}

}  // namespace

void add_run_command(CLI::App& root, Subcommand& chosen) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = root.add_subcommand("run", "Train a GNNJob manifest on this machine");
  command->add_option("manifest", arguments->manifest, "File with the GNNJob (YAML)")->required();
  command
      ->add_option(
          "--set",
          arguments->overrides,
          "Set a field of the spec, as in --set training.epochs=3; may be repeated"
      )
      ->take_all();
  add_console_options(*command, arguments->console);
  command->callback([arguments, &chosen] { chosen = [arguments] { return run(*arguments); }; });
}

}  // namespace gnn::app
