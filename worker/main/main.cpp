#include "common/contract.h"
#include "common/log.h"
#include "worker/app/command.h"

#include <CLI/CLI.hpp>

#include <exception>
#include <new>
#include <string>

namespace {

int run_guarded(const gnn::app::Subcommand& subcommand) {
  try {
    return subcommand();
  } catch (const std::bad_alloc&) {
    gnn::log_error("out of memory");
    return gnn::contract::kExitOutOfMemory;
  } catch (const std::exception& error) {
    gnn::log_error("unexpected failure", {{"error", error.what()}});
    return gnn::contract::kExitOther;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Train graph neural networks on one or many machines.", "gnn-worker"};
  app.require_subcommand(1);
  gnn::app::Subcommand chosen;
  gnn::app::add_run_command(app, chosen);
  gnn::app::add_rank_command(app, chosen);
  gnn::app::add_agent_command(app, chosen);
  gnn::app::add_server_command(app, chosen);
  gnn::app::add_prepare_command(app, chosen);
  gnn::app::add_data_command(app, chosen);
  gnn::app::add_model_command(app, chosen);
  gnn::app::add_report_command(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 prints the help or the error, and returns 0 for help.
    return app.exit(error) == 0 ? gnn::contract::kExitDone : gnn::contract::kExitConfiguration;
  }
  return run_guarded(chosen);
}
