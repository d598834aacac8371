#include "common/contract.h"
#include "worker/app/command.h"
#include "worker/app/generate_data.h"
#include "worker/app/import_data.h"
#include "worker/app/inspect_data.h"
#include "worker/data/readers/package_list.h"
#include "worker/data/unreadable_mapping.h"

#include <CLI/CLI.hpp>

#include <array>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gnn::app {
namespace {

// Runs a command on this process's console and returns the contract's exit code.
int run(const std::function<Status(const DataConsole&)>& command) {
  data::name_unreadable_mappings();
  const std::unique_ptr<ProgressBar> progress = make_progress_bar(stderr);
  const DataConsole console{
      .out = std::cout, .progress = *progress, .dumpavail = &data::run_dumpavail
  };
  const Status status = command(console);
  if (status) {
    return contract::kExitDone;
  }
  std::cerr << "gnn-worker data: " << status.error().message << "\n";
  switch (status.error().kind) {
    case ErrorKind::NotFound:  // a file of the data set, or the input folder
      return contract::kExitData;
    case ErrorKind::Conflict:  // the output folder
      return contract::kExitConfiguration;
    default:
      return contract::exit_code_for(status.error().kind);
  }
}

// An option without a meaning for the chosen format is a mistake: do not ignore it.
Status check_import_options(const CLI::App& command, ImportFormat format) {
  constexpr std::array kOfFiles{
      "--split", "--no-split", "--coalesce", "--row-normalize", "--self-loops", "--classes"
  };
  constexpr std::array kOfLinks{"--to-undirected", "--seed"};
  constexpr std::array kOfIndices{"--features", "--seed"};
  const auto refuse = [&](const auto& options) -> Status {
    for (const char* option : options) {
      if (command.count(option) == 0) continue;
      return fail(
          ErrorKind::Configuration,
          std::string(option) + " has no meaning with --format " + name_of(format)
      );
    }
    return {};
  };
  const bool is_index = format == ImportFormat::PackageIndex || format == ImportFormat::PackageTags;
  const bool has_links = format == ImportFormat::PackageTags || format == ImportFormat::Taobao;
  if (is_index || has_links) {
    GNN_RETURN_IF_ERROR(refuse(kOfFiles));
  }
  if (has_links) {
    GNN_RETURN_IF_ERROR(refuse(kOfLinks));
  }
  if (format == ImportFormat::Taobao) {
    GNN_RETURN_IF_ERROR(refuse(std::array{"--feature-dtype"}));
  }
  return is_index ? Status() : refuse(kOfIndices);
}

void add_import(CLI::App& data, Subcommand& chosen) {
  auto request = std::make_shared<ImportRequest>();
  CLI::App* command = data.add_subcommand("import", "Convert a data set to the native format");
  command
      ->add_option(
          "--format",
          request->format,
          "Format of the input: ogb, tu, gin, edge-list, reddit, taobao, package-index or "
          "package-tags"
      )
      ->required()
      ->transform(CLI::CheckedTransformer(import_formats(), CLI::ignore_case));
  command->add_option(
      "--input",
      request->input,
      "Folder or file to read; package-index and package-tags run apt-cache if this is not given"
  );
  command->add_option("--output", request->output.folder, "Folder to create")->required();
  command->add_flag(
      "--replace",
      request->output.replace,
      "Replace an output that was made from other inputs or options"
  );
  data::ReadOptions& reading = request->reading;
  command->add_option("--split", reading.split, "Name of the split, if the data set has several");
  command->add_flag("!--no-split", reading.split_required, "Accept a data set without a split");
  command->add_flag(
      "--to-undirected",
      reading.to_undirected,
      "Add the reverse of each edge, then remove duplicates"
  );
  command->add_flag("--coalesce", reading.coalesce, "Remove duplicate edges");
  command->add_flag(
      "--add-reverse",
      request->add_reverse,
      "Add the reverse of each edge type between two node types, as DESTINATION,rev_RELATION,SOURCE"
  );
  auto link = std::make_shared<std::vector<std::string>>();
  command
      ->add_option(
          "--link",
          *link,
          "Edge type whose edges are to be predicted, as SOURCE,RELATION,DESTINATION; the data set "
          "then needs no split"
      )
      ->delimiter(',')
      ->expected(3);
  command->add_flag(
      "--row-normalize",
      reading.normalize_rows,
      "Subtract the smallest feature from all, then divide each row by its sum (PyG's "
      "NormalizeFeatures)"
  );
  command
      ->add_option(
          "--self-loops",
          reading.self_loops,
          "Self-loops: keep (default), remove, add, or add-remaining (to nodes without one)"
      )
      ->transform(CLI::CheckedTransformer(std::map<std::string, data::SelfLoops>{
          {"keep", data::SelfLoops::Keep},
          {"remove", data::SelfLoops::Remove},
          {"add", data::SelfLoops::Add},
          {"add-remaining", data::SelfLoops::AddRemaining}
      }));
  command
      ->add_option(
          "--feature-dtype",
          reading.feature_dtype,
          "Type of the features: float32 (default) or float16"
      )
      ->transform(CLI::CheckedTransformer(std::map<std::string, data::DType>{
          {"float32", data::DType::Float32}, {"float16", data::DType::Float16}
      }));
  command->add_option(
      "--classes", reading.num_classes, "Number of classes (default: largest label + 1)"
  );
  data::PackageIndexOptions& index = request->package_index;
  command
      ->add_option(
          "--features",
          index.num_features,
          "package-index, package-tags: number of features that words are hashed to"
      )
      ->capture_default_str();
  command->add_option("--seed", index.seed, "package-index: seed of the split")
      ->capture_default_str();
  command->callback([command, request, link, &chosen] {
    if (link->size() == 3) {
      request->reading.link = {
          .source = link->at(0), .relation = link->at(1), .destination = link->at(2)
      };
      request->reading.split_required = false;
    }
    chosen = [command, request] {
      return run([command, request](const DataConsole& console) -> Status {
        GNN_RETURN_IF_ERROR(check_import_options(*command, request->format));
        return import_data(*request, console);
      });
    };
  });
}

void add_generate(CLI::App& data, Subcommand& chosen) {
  auto request = std::make_shared<GenerateRequest>();
  auto shape = std::make_shared<std::string>();
  CLI::App* command = data.add_subcommand(
      "generate", "Generate a synthetic data set with the shape of a known one"
  );
  command
      ->add_option(
          "--shape", *shape, "Shape: ogbn-arxiv, ogbn-products, reddit, fake-dataset or taobao"
      )
      ->required();
  command->add_option("--output", request->output.folder, "Folder to create")->required();
  command->add_flag(
      "--replace", request->output.replace, "Replace an output that was made with other options"
  );
  data::GenerateOptions& options = request->options;
  command->add_option("--scale", options.scale, "Factor for the numbers of nodes and edges")
      ->capture_default_str();
  command->add_option("--seed", options.seed, "Random seed; the same seed gives the same data")
      ->capture_default_str();
  command
      ->add_option(
          "--flipped-labels", options.flipped_labels, "Fraction of labels replaced by random ones"
      )
      ->capture_default_str();
  command->callback([request, shape, &chosen] {
    chosen = [request, shape] {
      return run([&](const DataConsole& console) -> Status {
        GNN_ASSIGN_OR_RETURN(request->options.shape, data::parse_shape(*shape));
        return generate_data(*request, console);
      });
    };
  });
}

}  // namespace

void add_data_command(CLI::App& root, Subcommand& chosen) {
  CLI::App* data = root.add_subcommand("data", "Import, generate, inspect or verify data sets");
  data->require_subcommand(1);
  add_import(*data, chosen);
  add_generate(*data, chosen);

  auto folder = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* inspect = data->add_subcommand("inspect", "Print what a data set contains");
  inspect->add_option("folder", *folder, "Folder of the data set")->required();
  inspect->add_flag("--json", *json, "Print one JSON object");
  inspect->callback([folder, json, &chosen] {
    chosen = [folder, json] {
      return run([&](const DataConsole& console) {
        return inspect_data(*folder, *json ? InspectFormat::Json : InspectFormat::Text, console);
      });
    };
  });
  CLI::App* verify = data->add_subcommand(
      "verify", "Check the digests, ids, labels, features and split of a data set"
  );
  verify->add_option("folder", *folder, "Folder of the data set")->required();
  verify->callback([folder, &chosen] {
    chosen = [folder] {
      return run([&](const DataConsole& console) { return verify_data(*folder, console); });
    };
  });
}

}  // namespace gnn::app
