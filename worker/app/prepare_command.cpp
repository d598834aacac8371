#include "common/contract.h"
#include "common/log.h"
#include "worker/agent/final_result.h"
#include "worker/agent/prepare_pod.h"
#include "worker/app/command.h"
#include "worker/app/job_file.h"
#include "worker/app/prepare_data.h"
#include "worker/data/readers/package_list.h"
#include "worker/data/unreadable_mapping.h"
#include "worker/rendezvous/rendezvous.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <sstream>
#include <string>
#include <thread>

namespace gnn::app {
namespace {

using std::chrono::steady_clock;

// A writer gives its lock back when it dies, so that one which is waited for so long hangs.
constexpr auto kLongestWait = std::chrono::hours(24);
constexpr auto kLookAgain = std::chrono::seconds(2);

Result<std::string> prepare(const std::string& job_file, ProgressBar& progress) {
  data::name_unreadable_mappings();
  GNN_ASSIGN_OR_RETURN(const api::GnnJob job, load_job(job_file));
  std::ostringstream said;
  const auto began = steady_clock::now();
  bool told = false;
  const auto await_writer = [&](const Error& busy) -> Status {
    if (steady_clock::now() > began + kLongestWait) {
      return fail(ErrorKind::Timeout, busy.message + ", and has been for 24 hours");
    }
    if (!told) {
      progress.say(busy.message + "; waiting for it");
      progress.begin("waiting for another writer of the data", 0, "");
      progress.end();
      told = true;
    }
    std::this_thread::sleep_for(kLookAgain);
    return {};
  };
  const DataConsole console{
      .out = said,
      .progress = progress,
      .dumpavail = &data::run_dumpavail,
      .await_writer = await_writer
  };
  const Status prepared = prepare_data(job, console);
  std::istringstream lines(said.str());
  const std::string output = job.spec.dataset.path.value_or("") + ": ";
  std::string made;
  for (std::string line; std::getline(lines, line);) {
    progress.say(line);
    if (line.starts_with(output)) made = line;  // what follows may be a report
  }
  if (!prepared) return tl::make_unexpected(prepared.error());
  return made;
}

int prepare_in_pod() {
  const auto environment = rendezvous::process_environment();
  const auto options = agent::parse_prepare_options(environment);
  if (!options) {
    log_error(options.error().message);
    return contract::exit_code_for(options.error().kind);
  }
  const std::string job_file =
      environment(contract::kEnvConfig).value_or(std::string(contract::kConfigFile));
  return agent::run_prepare_pod(*options, [&](ProgressBar& progress) {
    return prepare(job_file, progress);
  });
}

}  // namespace

void add_prepare_command(CLI::App& root, Subcommand& chosen) {
  auto* command = root.add_subcommand(
      "prepare", "Make a job's data in a pod, as the environment says (docs/worker-contract.md)"
  );
  command->callback([&chosen] { chosen = prepare_in_pod; });
}

}  // namespace gnn::app
