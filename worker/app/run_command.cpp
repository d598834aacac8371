#include "common/api/codec.h"
#include "common/api/yaml.h"
#include "common/contract.h"
#include "common/log.h"
#include "common/text_file.h"
#include "worker/app/command.h"
#include "worker/app/job_file.h"
#include "worker/app/job_options.h"
#include "worker/app/local_job.h"
#include "worker/app/prepare_data.h"
#include "worker/app/run_rank.h"
#include "worker/app/run_tracked.h"
#include "worker/data/readers/package_list.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace gnn::app {
namespace {

int fail_with(const Error& error) {
  const int code = contract::exit_code_for(error.kind);
  log_error(error.message, {{"kind", to_string(error.kind)}, {"exit_code", code}});
  return code;
}

// Of scalars that other programs read differently. A file that cannot be read is reported by others.
void log_yaml_warnings(const std::string& path) {
  const Result<std::string> text = read_text_file(path, api::kMaxDocumentBytes);
  if (!text) return;
  for (const std::string& warning : api::yaml_warnings(*text)) {
    log_warning(warning, {{"file", path}});
  }
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
int run_single(const api::GnnJob& job, const JobOptions& options) {
  StopToken stop;
  stop_on_signals(stop);
  const std::unique_ptr<progress::ProgressSink> console =
      make_console_sink(options.console, job.spec.training);
  rendezvous::Rendezvous alone;
  alone.job = job.metadata.name;
  alone.incarnation.job_uid = rendezvous::fresh_job_uid();
  const Result<tasks::TaskResult> outcome = run_tracked(
      job,
      {.rendezvous = alone, .progress = *console, .stop = stop, .activity = nullptr},
      {.log_steps = log_steps_of(options.console, job.spec.training)}
  );
  if (!outcome) return fail_with(outcome.error());
  return exit_code_of(outcome);
}

int run(const JobOptions& options) {
  if (const Status status = apply_console_options(options.console); !status)
    return fail_with(status.error());
  const Result<api::GnnJob> job = load_job(options.config, options.overrides);
  log_yaml_warnings(options.config);
  if (!job) return fail_with(job.error());
  if (const Status prepared = prepare_here(*job); !prepared) return fail_with(prepared.error());
  const bool alone = job->spec.workers.nodes == 1 && job->spec.workers.processes_per_node == 1;
  if (alone && !job->spec.servers) return run_single(*job, options);
  return run_local_job(*job, process_command("rank", options), process_command("server", options));
}

}  // namespace

void add_run_command(CLI::App& root, Subcommand& chosen) {
  auto options = std::make_shared<JobOptions>();
  CLI::App* command = root.add_subcommand("run", "Train a GNNJob manifest on this machine");
  command->add_option("manifest", options->config, "File with the GNNJob (YAML)")->required();
  command->add_option_function<int64_t>(
      "--servers",
      [options](int64_t servers) {
        options->overrides.push_back("servers.nodes=" + std::to_string(servers));
      },
      "Sampling servers, as --set servers.nodes= says"
  );
  add_job_options(*command, *options);
  command->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace gnn::app
