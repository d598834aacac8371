#include "common/contract.h"
#include "worker/app/command.h"
#include "worker/app/report_run.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>

namespace gnn::app {
namespace {

int run(const ReportRequest& request) {
  const Status status = report_run(request, std::cout);
  if (status) return contract::kExitDone;
  std::cerr << "gnn-worker report: " << status.error().message << "\n";
  return contract::exit_code_for(status.error().kind);
}

}  // namespace

void add_report_command(CLI::App& root, Subcommand& chosen) {
  auto request = std::make_shared<ReportRequest>();
  CLI::App* command =
      root.add_subcommand("report", "Write a page about a run: one HTML file that loads nothing");
  command
      ->add_option(
          "run",
          request->run,
          "Folder of the run's checkpoints (spec.checkpoint.path), or its run.json"
      )
      ->required();
  request->output = "report.html";
  command->add_option("--output", request->output, "File to write")->capture_default_str();
  command->callback([request, &chosen] { chosen = [request] { return run(*request); }; });
}

}  // namespace gnn::app
