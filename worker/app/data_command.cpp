#include "common/contract.h"
#include "worker/app/command.h"
#include "worker/app/generate_data.h"
#include "worker/app/import_data.h"
#include "worker/app/inspect_data.h"
#include "worker/app/partition_data.h"
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

std::map<std::string, data::DType> feature_dtypes() {
  return {{"float32", data::DType::Float32}, {"float16", data::DType::Float16}};
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
  add_memory_option(*command, request->output.memory_bytes);
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
      ->transform(CLI::CheckedTransformer(feature_dtypes()));
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
          "--shape",
          *shape,
          "Shape: ogbn-arxiv, ogbn-products, ogbn-papers100M, reddit, fake-dataset or taobao"
      )
      ->required();
  command->add_option("--output", request->output.folder, "Folder to create")->required();
  command->add_flag(
      "--replace", request->output.replace, "Replace an output that was made with other options"
  );
  add_memory_option(*command, request->output.memory_bytes);
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
  command
      ->add_option(
          "--feature-dtype",
          options.feature_dtype,
          "Type of the features: float32 (default) or float16"
      )
      ->transform(CLI::CheckedTransformer(feature_dtypes()));
  command
      ->add_option(
          "--form",
          request->form,
          "Form to write: native (default), or ogb-npz, which `data import --format ogb` reads"
      )
      ->transform(CLI::CheckedTransformer(std::map<std::string, DataForm>{
          {"native", DataForm::Native}, {"ogb-npz", DataForm::OgbNpz}
      }));
  command->callback([request, shape, &chosen] {
    chosen = [request, shape] {
      return run([&](const DataConsole& console) -> Status {
        GNN_ASSIGN_OR_RETURN(request->options.shape, data::parse_shape(*shape));
        return generate_data(*request, console);
      });
    };
  });
}

// "SOURCE,RELATION,DESTINATION=15,10"
Result<partition::EdgeTypeFanout> parse_edge_type_fanout(const std::string& text) {
  const auto equals = text.find('=');
  std::vector<std::string> names = CLI::detail::split(text.substr(0, equals), ',');
  partition::EdgeTypeFanout made;
  bool is_right = equals != std::string::npos && names.size() == 3;
  for (const std::string& number :
       CLI::detail::split(is_right ? text.substr(equals + 1) : "", ',')) {
    int64_t value = 0;
    is_right = is_right && CLI::detail::lexical_cast(number, value);
    made.fanout.push_back(value);
  }
  if (!is_right) {
    return fail(
        ErrorKind::Configuration,
        "--fanout-by-edge-type: expected SOURCE,RELATION,DESTINATION=N,N, found " + text
    );
  }
  made.edge_type = {.source = names[0], .relation = names[1], .destination = names[2]};
  return made;
}

// The options of how links are split. Any of them asks for a split.
void add_link_split_options(CLI::App& command, PartitionRequest& request) {
  const auto add = [&](const char* name, auto data::LinkSplitOptions::*option, const char* what) {
    using Value = std::remove_reference_t<decltype(data::LinkSplitOptions{}.*option)>;
    command.add_option_function<Value>(
        name,
        [&request, option](const Value& value) {
          if (!request.link_split) request.link_split.emplace();
          *request.link_split.*option = value;
        },
        what
    );
  };
  using Options = data::LinkSplitOptions;
  add("--validation",
      &Options::validation,
      "Links: the job's dataset.split.validation, to split them");
  add("--test", &Options::test, "Links: the job's dataset.split.test (default: 0)");
  add("--disjoint-train",
      &Options::disjoint_train,
      "Links: the job's dataset.split.disjointTrain (default: 0)");
  add("--negative-ratio",
      &Options::negative_ratio,
      "Links: the job's dataset.split.negativeRatio (default: 1; 0 with metric MRR)");
  add("--split-seed",
      &Options::seed,
      "Links: the job's dataset.split.seed, or its training.seed (default: 0)");
}

// The options of how a data set is partitioned.
void add_partition_options(
    CLI::App& command, PartitionRequest& request, std::vector<std::string>& edge_type_fanouts
) {
  partition::PartitionOptions& options = request.options;
  command.add_option("--parts", options.parts, "Number of parts");
  command.add_option("--method", options.method, "Method: hotness (default), random, ldg or metis")
      ->transform(CLI::CheckedTransformer(std::map<std::string, partition::Method>{
          {"random", partition::Method::Random},
          {"hotness", partition::Method::Hotness},
          {"ldg", partition::Method::Ldg},
          {"metis", partition::Method::Metis}
      }));
  command
      .add_option(
          "--fanout",
          options.fanout,
          "The job's sampling.fanout, as 15,10,5: what hot rows follow from"
      )
      ->delimiter(',');
  command.add_option(
      "--fanout-by-edge-type",
      edge_type_fanouts,
      "Another fan-out for an edge type, as SOURCE,RELATION,DESTINATION=8,4"
  );
  command.add_option("--batch-size", options.batch_size, "The job's training.batchSize");
  command.add_flag("--replace-draws", options.replace, "The job's sampling.replace");
  command
      .add_option("--rule", options.rule, "The job's sampling.rule: NewNodes (default), AllSeen")
      ->transform(CLI::CheckedTransformer(std::map<std::string, data::HopRule>{
          {"NewNodes", data::HopRule::NewNodes}, {"AllSeen", data::HopRule::AllSeen}
      }));
  command
      .add_option("--negatives", options.negatives, "Links: the job's sampling.negatives.amount")
      ->capture_default_str();
  command
      .add_option(
          "--hot-rows",
          options.hot_rows,
          "Rows of other parts to list as each part's hottest, as a share of all"
      )
      ->capture_default_str();
  command.add_option("--seed", options.seed, "Random seed")->capture_default_str();
  add_link_split_options(command, request);
  command.add_option("--picture", request.picture, "File for a picture of the report (SVG)");
}

void add_partition(CLI::App& data, Subcommand& chosen) {
  auto request = std::make_shared<PartitionRequest>();
  auto part = std::make_shared<int64_t>(0);
  auto fanouts = std::make_shared<std::vector<std::string>>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = data.add_subcommand(
      "partition", "Deal the nodes of a data set to parts, or extract one part"
  );
  command->add_option("--input", request->input, "Folder of the data set")->required();
  command->add_option("--output", request->output.folder, "Folder to create")->required();
  command->add_flag(
      "--replace",
      request->output.replace,
      "Replace an output that was made from another input or with other options"
  );
  add_memory_option(*command, request->output.memory_bytes);
  CLI::Option* extract = command->add_option(
      "--extract", *part, "Copy this part of a partitioned data set, for a local disk"
  );
  add_partition_options(*command, *request, *fanouts);
  command->add_flag("--json", *json, "Print the report as one JSON object");
  for (CLI::Option* option : command->get_options()) {
    const std::string name = option->get_single_name();
    if (option != extract && name != "input" && name != "output" && name != "replace" &&
        name != "memory" && name != "help") {
      extract->excludes(option);
    }
  }
  command->callback([request, part, fanouts, json, extract, &chosen] {
    if (*extract) {
      chosen = [request, part] {
        return run([&](const DataConsole& console) {
          return extract_data(
              {.input = request->input, .output = request->output, .part = *part}, console
          );
        });
      };
      return;
    }
    request->report = *json ? ReportFormat::Json : ReportFormat::Text;
    chosen = [request, fanouts] {
      return run([&](const DataConsole& console) -> Status {
        for (const std::string& text : *fanouts) {
          GNN_ASSIGN_OR_RETURN(auto fanout, parse_edge_type_fanout(text));
          request->options.fanout_by_edge_type.push_back(std::move(fanout));
        }
        return partition_data(*request, console);
      });
    };
  });
}

}  // namespace

void add_data_command(CLI::App& root, Subcommand& chosen) {
  CLI::App* data =
      root.add_subcommand("data", "Import, generate, partition, inspect or verify data sets");
  data->require_subcommand(1);
  add_import(*data, chosen);
  add_generate(*data, chosen);
  add_partition(*data, chosen);

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
