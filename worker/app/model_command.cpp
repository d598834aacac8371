#include "common/contract.h"
#include "worker/app/command.h"
#include "worker/app/job_file.h"
#include "worker/app/model_files.h"

#include <CLI/CLI.hpp>

#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gnn::app {
namespace {

// The command line of either command.
struct ModelOptions {
  std::string job;
  std::vector<std::string> overrides;
  std::string manifest;  // export's
  std::string file;
  std::optional<interop::Library> names;
};

int run(
    const ModelOptions& options, const std::function<Status(const ModelFileRequest&)>& command
) {
  const auto run_checked = [&]() -> Status {
    GNN_ASSIGN_OR_RETURN(api::GnnJob job, load_job(options.job, options.overrides));
    return command({.job = std::move(job), .file = options.file, .names = options.names});
  };
  const Status status = run_checked();
  if (status) return contract::kExitDone;
  std::cerr << "gnn-worker model: " << status.error().message << "\n";
  if (status.error().kind == ErrorKind::NotFound) return contract::kExitData;
  return contract::exit_code_for(status.error().kind);
}

void add_common_options(CLI::App& command, ModelOptions& options) {
  command.add_option("--job", options.job, "File with the GNNJob whose model it is (YAML)")
      ->required();
  command.add_option(
      "--set", options.overrides, "Sets a field of the job's spec, as model.graphSage.layers=2"
  );
  command
      .add_option_function<interop::Library>(
          "--names",
          [&options](const interop::Library& names) { options.names = names; },
          "Whose names the tensors have: DGL or PyG (default: what the file or the job says)"
      )
      ->transform(CLI::CheckedTransformer(std::map<std::string, interop::Library>{
          {"DGL", interop::Library::Dgl}, {"PyG", interop::Library::Pyg}
      }));
}

}  // namespace

void add_model_command(CLI::App& root, Subcommand& chosen) {
  CLI::App* model = root.add_subcommand("model", "Check or export trained models (safetensors)");
  model->require_subcommand(1);

  auto options = std::make_shared<ModelOptions>();
  CLI::App* check = model->add_subcommand("check", "Read a safetensors file as the model of a job");
  check->add_option("file", options->file, "File to read")->required();
  add_common_options(*check, *options);
  check->callback([options, &chosen] {
    chosen = [options] {
      return run(*options, [](const ModelFileRequest& request) {
        return check_model(request, std::cout);
      });
    };
  });

  CLI::App* to_file =
      model->add_subcommand("export", "Write the model of a checkpoint as a safetensors file");
  to_file->add_option("checkpoint", options->manifest, "The checkpoint's manifest")->required();
  to_file->add_option("--output", options->file, "File to write")->required();
  add_common_options(*to_file, *options);
  to_file->callback([options, &chosen] {
    chosen = [options] {
      return run(*options, [options](const ModelFileRequest& request) {
        return export_checkpoint(options->manifest, request, std::cout);
      });
    };
  });
}

}  // namespace gnn::app
