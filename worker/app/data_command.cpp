#include "worker/app/data_command.h"

#include "common/contract.h"
#include "worker/app/command.h"
#include "worker/graph/digest.h"
#include "worker/graph/load.h"
#include "worker/graph/native.h"
#include "worker/graph/readers/edge_list.h"
#include "worker/graph/readers/gin.h"
#include "worker/graph/readers/ogb.h"
#include "worker/graph/readers/tu.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, ImportFormat>& import_formats() {
  static const std::map<std::string, ImportFormat> kFormats{
      {"ogb", ImportFormat::Ogb},
      {"tu", ImportFormat::Tu},
      {"gin", ImportFormat::Gin},
      {"edge-list", ImportFormat::EdgeList},
      {"package-index", ImportFormat::PackageIndex},
  };
  return kFormats;
}

std::string name_of(ImportFormat format) {
  for (const auto& [name, value] : import_formats()) {
    if (value == format) {
      return name;
    }
  }
  return "";
}

/// All files of the input with their digests, in the order of their names.
Result<std::vector<graph::InputFile>> input_files(const std::string& input, Progress& progress) {
  std::vector<std::string> paths;
  std::error_code error;
  if (fs::is_directory(input, error)) {
    for (const auto& entry : fs::recursive_directory_iterator(input, error)) {
      if (entry.is_regular_file(error)) {
        paths.push_back(entry.path().string());
      }
    }
    if (error) {
      return fail(ErrorKind::Io, input + ": can't list it: " + error.message());
    }
  } else {
    paths.push_back(input);
  }
  std::sort(paths.begin(), paths.end());
  std::vector<graph::InputFile> files;
  progress.begin("hashing input", static_cast<int64_t>(paths.size()), "files");
  for (const std::string& path : paths) {
    GNN_ASSIGN_OR_RETURN(
        graph::FileDigest digest, graph::digest_file(graph::DigestKind::Xxh64, path)
    );
    files.push_back({.path = path, .bytes = digest.bytes, .digest = std::move(digest.digest)});
    progress.advance_to(static_cast<int64_t>(files.size()), {});
  }
  progress.end();
  return files;
}

/// Names inputs and options; where the input lies does not matter.
std::string key_of(
    const std::string& kind,
    const std::string& options,
    const std::string& root,
    const std::vector<graph::InputFile>& inputs
) {
  std::string text = kind + "\n" + options + "\n" + std::to_string(graph::kNativeVersion) + "\n";
  for (const graph::InputFile& input : inputs) {
    text += input.path.substr(std::min(root.size(), input.path.size())) + " " + input.digest + "\n";
  }
  return graph::digest_of(graph::DigestKind::Sha256, std::as_bytes(std::span(text)));
}

std::string summary(const graph::DatasetArrays& arrays) {
  int64_t nodes = 0;
  int64_t edges = 0;
  for (const graph::NodeTable& table : arrays.node_tables) {
    nodes += table.num_nodes;
  }
  for (const graph::EdgeTable& table : arrays.edge_tables) {
    edges += table.indices.num_elements();
  }
  std::string text = std::to_string(nodes) + " nodes, " + std::to_string(edges) + " edges, " +
                     std::to_string(arrays.num_classes) + " classes";
  if (arrays.graph_labels.defined()) {
    text += ", " + std::to_string(arrays.graph_labels.num_elements()) + " graphs";
  }
  return text;
}

using Producer = std::function<Result<graph::DatasetArrays>(graph::ArrayStorage&)>;

/// Makes the data set, checks it and publishes it, unless it is there already.
Status produce(
    const std::string& output,
    bool replace,
    const std::string& key,
    const Producer& make,
    const DataConsole& console
) {
  if (graph::published_key(output) == key) {
    console.out << output
                << ": is complete already, made from the same inputs with the same options\n";
    return {};
  }
  std::error_code error;
  if (!replace && fs::exists(output, error) && !fs::is_empty(output, error)) {
    return fail(
        ErrorKind::Conflict,
        output +
            ": exists and was made from other inputs or options; --replace exchanges it for the "
            "new one"
    );
  }
  GNN_ASSIGN_OR_RETURN(const auto writer, graph::NativeWriter::open(output, key));
  if (writer->num_resumed() > 0) {
    console.out << output << ": goes on from " << writer->num_resumed()
                << " arrays of an interrupted run\n";
  }
  GNN_ASSIGN_OR_RETURN(const graph::DatasetArrays arrays, make(*writer));
  // Nothing is published that training would refuse.
  GNN_RETURN_IF_ERROR(graph::make_dataset(arrays, output));
  GNN_RETURN_IF_ERROR(writer->publish(arrays, replace));
  console.out << output << ": " << summary(arrays) << "\n";
  return {};
}

std::string array_text(const graph::Array& array) {
  return array.defined() ? std::string(graph::dtype_name(array.dtype())) + " " +
                               graph::shape_text(array.shape())
                         : "none";
}

nlohmann::ordered_json array_json(const graph::Array& array) {
  if (!array.defined()) {
    return nullptr;
  }
  return {
      {"dtype", graph::dtype_name(array.dtype())},
      {"shape", array.shape()},
      {"bytes", array.num_bytes()}
  };
}

struct Degrees {
  int64_t largest = 0;
  int64_t isolated = 0;  // nodes no edge ends in
};

Degrees degrees_of(const graph::EdgeTable& table) {
  Degrees degrees;
  const auto indptr = table.indptr.view<int64_t>();
  for (size_t node = 0; node + 1 < indptr.size(); ++node) {
    const int64_t degree = indptr[node + 1] - indptr[node];
    degrees.largest = std::max(degrees.largest, degree);
    degrees.isolated += degree == 0 ? 1 : 0;
  }
  return degrees;
}

nlohmann::ordered_json to_json(const graph::NativeDataset& dataset) {
  const graph::DatasetArrays& arrays = dataset.arrays;
  nlohmann::ordered_json json{
      {"name", arrays.name},
      {"key", dataset.key},
      {"manifestDigest", dataset.manifest_digest},
      {"numClasses", arrays.num_classes},
      {"targetNodeType", arrays.target_node_type},
      {"nodeTypes", nlohmann::ordered_json::array()},
      {"edgeTypes", nlohmann::ordered_json::array()},
  };
  for (const graph::NodeTable& table : arrays.node_tables) {
    json["nodeTypes"].push_back(
        {{"name", table.name},
         {"count", table.num_nodes},
         {"features", array_json(table.features)},
         {"labels", array_json(table.labels)}}
    );
  }
  for (const graph::EdgeTable& table : arrays.edge_tables) {
    const Degrees degrees = degrees_of(table);
    json["edgeTypes"].push_back(
        {{"source", table.source},
         {"relation", table.relation},
         {"destination", table.destination},
         {"count", table.indices.num_elements()},
         {"largestInDegree", degrees.largest},
         {"nodesWithoutInEdge", degrees.isolated},
         {"indices", array_json(table.indices)}}
    );
  }
  if (arrays.train.defined()) {
    json["split"] = {
        {"train", arrays.train.num_elements()},
        {"validation", arrays.validation.num_elements()},
        {"test", arrays.test.num_elements()}
    };
  }
  if (arrays.graph_labels.defined()) {
    json["numGraphs"] = arrays.graph_labels.num_elements();
  }
  json["origin"] = {
      {"source", arrays.origin.source},
      {"path", arrays.origin.path},
      {"options", arrays.origin.options}
  };
  for (const auto& [name, value] : arrays.origin.facts) {
    json["origin"]["facts"][name] = value;
  }
  return json;
}

void print_text(const graph::NativeDataset& dataset, std::ostream& out) {
  const graph::DatasetArrays& arrays = dataset.arrays;
  out << "name            " << arrays.name << "\n";
  for (const graph::NodeTable& table : arrays.node_tables) {
    out << "node type       " << table.name << ": " << table.num_nodes << " nodes, features "
        << array_text(table.features) << ", labels " << array_text(table.labels) << "\n";
  }
  for (const graph::EdgeTable& table : arrays.edge_tables) {
    const Degrees degrees = degrees_of(table);
    out << "edge type       " << table.source << " -" << table.relation << "-> "
        << table.destination << ": " << table.indices.num_elements() << " edges ("
        << graph::dtype_name(table.indices.dtype()) << " ids), largest in-degree "
        << degrees.largest << ", " << degrees.isolated << " nodes without in-edge\n";
  }
  out << "classes         " << arrays.num_classes << " of " << arrays.target_node_type << "\n";
  if (arrays.graph_labels.defined()) {
    out << "graphs          " << arrays.graph_labels.num_elements() << "\n";
  }
  if (arrays.train.defined()) {
    out << "split           " << arrays.train.num_elements() << " train, "
        << arrays.validation.num_elements() << " validation, " << arrays.test.num_elements()
        << " test\n";
  } else {
    out << "split           none\n";
  }
  out << "made from       " << arrays.origin.source << (arrays.origin.path.empty() ? "" : " ")
      << arrays.origin.path << "\n";
  out << "options         " << arrays.origin.options << "\n";
  for (const auto& [name, value] : arrays.origin.facts) {
    out << "fact            " << name << " = " << value << "\n";
  }
  int64_t bytes = 0;
  for (const graph::ManifestArray& file : dataset.files) {
    bytes += file.file_bytes;
  }
  out << "on disk         " << dataset.files.size() << " arrays, "
      << short_count(static_cast<double>(bytes)) << "B\n";
  out << "manifest        " << dataset.manifest_digest << "\n";
}

/// Runs a command on the process's own console and turns its result into the exit code of the
/// contract.
int run(const std::function<Status(const DataConsole&)>& command) {
  const std::unique_ptr<Progress> progress = make_progress(stderr);
  const DataConsole console{
      .out = std::cout, .progress = *progress, .dumpavail = &graph::run_dumpavail
  };
  const Status status = command(console);
  if (status) {
    return contract::kExitDone;
  }
  std::cerr << "gnn-worker data: " << status.error().message << "\n";
  switch (status.error().kind) {
    case ErrorKind::NotFound:  // a file of the data set, or the folder given
      return contract::kExitData;
    case ErrorKind::Conflict:  // the output given
      return contract::kExitConfiguration;
    default:
      return contract::exit_code_for(status.error().kind);
  }
}

// An option that the chosen format has no use for is a mistake, not something to pass over.
Status check_import_options(const CLI::App& command, ImportFormat format) {
  constexpr std::array kNotForIndex{
      "--split", "--no-split", "--coalesce", "--row-normalize", "--self-loops", "--classes"
  };
  constexpr std::array kOnlyForIndex{"--features", "--seed"};
  const auto refuse = [&](const auto& options) -> Status {
    for (const char* option : options) {
      if (command.count(option) == 0) continue;
      return fail(
          ErrorKind::Configuration,
          std::string(option) + ": has no meaning with --format " + name_of(format) +
              "; leave it out"
      );
    }
    return {};
  };
  return format == ImportFormat::PackageIndex ? refuse(kNotForIndex) : refuse(kOnlyForIndex);
}

void add_import(CLI::App& data, Action& action) {
  auto request = std::make_shared<ImportRequest>();
  CLI::App* command =
      data.add_subcommand("import", "Read a data set and keep it in the on-disk form");
  command
      ->add_option(
          "--format", request->format, "Form of the input: ogb, tu, gin, edge-list, package-index"
      )
      ->required()
      ->transform(CLI::CheckedTransformer(import_formats(), CLI::ignore_case));
  command->add_option(
      "--input", request->input, "Folder or file to read; without it package-index runs apt-cache"
  );
  command->add_option("--output", request->output, "Folder to make")->required();
  command->add_flag(
      "--replace", request->replace, "Exchange an output made from other inputs or options"
  );
  graph::ReadOptions& reading = request->reading;
  command->add_option("--split", reading.split, "Name of the split, where there are several");
  command->add_flag("!--no-split", reading.split_required, "Import a data set that has no split");
  command->add_flag(
      "--to-undirected", reading.to_undirected, "Add each edge's reverse, then remove duplicates"
  );
  command->add_flag("--coalesce", reading.coalesce, "Remove duplicate edges");
  command->add_flag(
      "--row-normalize",
      reading.normalize_rows,
      "Subtract the features' minimum, then divide each row by its sum"
  );
  command->add_option("--self-loops", reading.self_loops, "keep, remove, add or add-remaining")
      ->transform(CLI::CheckedTransformer(std::map<std::string, graph::SelfLoops>{
          {"keep", graph::SelfLoops::Keep},
          {"remove", graph::SelfLoops::Remove},
          {"add", graph::SelfLoops::Add},
          {"add-remaining", graph::SelfLoops::AddRemaining}
      }));
  command->add_option("--feature-dtype", reading.feature_dtype, "float32 or float16")
      ->transform(CLI::CheckedTransformer(std::map<std::string, graph::DType>{
          {"float32", graph::DType::Float32}, {"float16", graph::DType::Float16}
      }));
  command->add_option(
      "--classes", reading.num_classes, "Number of classes; default: the largest label + 1"
  );
  graph::PackageIndexOptions& index = request->package_index;
  command
      ->add_option(
          "--features", index.num_features, "package-index: columns that words are hashed to"
      )
      ->capture_default_str();
  command->add_option("--seed", index.seed, "package-index: seed of the split")
      ->capture_default_str();
  command->callback([command, request, &action] {
    action = [command, request] {
      return run([command, request](const DataConsole& console) -> Status {
        GNN_RETURN_IF_ERROR(check_import_options(*command, request->format));
        return import_data(*request, console);
      });
    };
  });
}

void add_generate(CLI::App& data, Action& action) {
  auto request = std::make_shared<GenerateRequest>();
  auto shape = std::make_shared<std::string>();
  CLI::App* command =
      data.add_subcommand("generate", "Make a synthetic data set of a known one's shape");
  command->add_option("--shape", *shape, "ogbn-arxiv, ogbn-products, reddit or fake-dataset")
      ->required();
  command->add_option("--output", request->output, "Folder to make")->required();
  command->add_flag("--replace", request->replace, "Exchange an output made with other options");
  graph::GenerateOptions& options = request->options;
  command->add_option("--scale", options.scale, "Factor on nodes and edges")->capture_default_str();
  command->add_option("--seed", options.seed, "Equal seeds give equal bits")->capture_default_str();
  command->add_option("--flipped-labels", options.flipped_labels, "Fraction of labels drawn anew")
      ->capture_default_str();
  command->callback([request, shape, &action] {
    action = [request, shape] {
      return run([&](const DataConsole& console) -> Status {
        GNN_ASSIGN_OR_RETURN(request->options.shape, graph::parse_shape(*shape));
        return generate_data(*request, console);
      });
    };
  });
}

}  // namespace

Status import_data(const ImportRequest& request, const DataConsole& console) {
  const bool is_index = request.format == ImportFormat::PackageIndex;
  if (request.input.empty() && !is_index) {
    return fail(
        ErrorKind::Configuration, "--input: expected with --format " + name_of(request.format)
    );
  }
  graph::PackageIndexOptions index_options = request.package_index;
  index_options.to_undirected = request.reading.to_undirected;
  index_options.feature_dtype = request.reading.feature_dtype;
  std::string options = graph::describe(request.reading);
  if (is_index) {
    options += ", features=" + std::to_string(index_options.num_features) +
               ", seed=" + std::to_string(index_options.seed);
  }
  std::vector<graph::InputFile> inputs;
  std::string index_text;
  if (request.input.empty()) {
    GNN_ASSIGN_OR_RETURN(index_text, console.dumpavail());
    inputs.push_back(
        {.path = "apt-cache dumpavail",
         .bytes = static_cast<int64_t>(index_text.size()),
         .digest = graph::digest_of(graph::DigestKind::Sha256, std::as_bytes(std::span(index_text)))
        }
    );
  } else {
    GNN_ASSIGN_OR_RETURN(inputs, input_files(request.input, console.progress));
  }
  const std::string key = key_of(name_of(request.format), options, request.input, inputs);
  const auto make = [&](graph::ArrayStorage& storage) -> Result<graph::DatasetArrays> {
    switch (request.format) {
      case ImportFormat::Ogb:
        return graph::read_ogb(request.input, request.reading, storage, console.progress);
      case ImportFormat::Tu:
        return graph::read_tu(request.input, request.reading, storage, console.progress);
      case ImportFormat::Gin:
        return graph::read_gin(request.input, request.reading, storage, console.progress);
      case ImportFormat::EdgeList:
        return graph::read_edge_list(request.input, request.reading, storage, console.progress);
      case ImportFormat::PackageIndex:
        break;
    }
    auto source = request.input.empty() ? Result<std::unique_ptr<graph::ByteSource>>(
                                              graph::from_memory("apt-cache dumpavail", index_text)
                                          )
                                        : graph::open_by_suffix(request.input);
    if (!source) {
      return tl::make_unexpected(std::move(source).error());
    }
    return graph::read_package_index(std::move(*source), index_options, storage, console.progress);
  };
  const auto with_inputs = [&](graph::ArrayStorage& storage) -> Result<graph::DatasetArrays> {
    GNN_ASSIGN_OR_RETURN(graph::DatasetArrays arrays, make(storage));
    arrays.origin.path = request.input;
    arrays.origin.inputs = inputs;
    return arrays;
  };
  return produce(request.output, request.replace, key, with_inputs, console);
}

Status generate_data(const GenerateRequest& request, const DataConsole& console) {
  const graph::GenerateOptions& options = request.options;
  const std::string text = std::string(graph::shape_name(options.shape)) + " " +
                           std::to_string(options.scale) + " " + std::to_string(options.seed) +
                           " " + std::to_string(options.flipped_labels);
  const std::string key = key_of("generate", text, "", {});
  const auto make = [&](graph::ArrayStorage& storage) {
    return graph::generate(options, storage, console.progress);
  };
  return produce(request.output, request.replace, key, make, console);
}

Status inspect_data(const std::string& directory, bool json, const DataConsole& console) {
  GNN_ASSIGN_OR_RETURN(const graph::NativeDataset dataset, graph::open_native(directory, {}));
  if (json) {
    console.out << to_json(dataset).dump(2) << "\n";
  } else {
    print_text(dataset, console.out);
  }
  return {};
}

Status verify_data(const std::string& directory, const DataConsole& console) {
  GNN_ASSIGN_OR_RETURN(const graph::NativeDataset dataset, graph::open_native(directory, {}));
  GNN_RETURN_IF_ERROR(graph::verify_digests(directory, dataset, console.progress));
  GNN_RETURN_IF_ERROR(graph::make_dataset(dataset.arrays, directory));
  console.out << directory << ": whole (" << summary(dataset.arrays) << ")\n";
  return {};
}

void add_data_command(CLI::App& root, Action& action) {
  CLI::App* data = root.add_subcommand("data", "Import, generate, inspect and verify data sets");
  data->require_subcommand(1);
  add_import(*data, action);
  add_generate(*data, action);

  auto directory = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* inspect = data->add_subcommand("inspect", "Print what a data set holds");
  inspect->add_option("directory", *directory, "Folder of the on-disk form")->required();
  inspect->add_flag("--json", *json, "One JSON object");
  inspect->callback([directory, json, &action] {
    action = [directory, json] {
      return run([&](const DataConsole& console) {
        return inspect_data(*directory, *json, console);
      });
    };
  });
  CLI::App* verify =
      data->add_subcommand("verify", "Check digests, ids, labels, features and split");
  verify->add_option("directory", *directory, "Folder of the on-disk form")->required();
  verify->callback([directory, &action] {
    action = [directory] {
      return run([&](const DataConsole& console) { return verify_data(*directory, console); });
    };
  });
}

}  // namespace gnn::app
