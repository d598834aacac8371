#pragma once

#include "common/progress_bar.h"
#include "common/stopwatch.h"
#include "tests/support/must.h"
#include "worker/graph/load.h"
#include "worker/nn/models/gcn.h"
#include "worker/nn/models/graph_sage.h"

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <torch/utils.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <string>

namespace gnn::bench {

/// A model that is not trained, and the generated graph that it is for.
struct GeneratedModel {
  std::string shape = "Products";
  std::string scale = "0.1";
  std::string model = "GraphSAGE";
  int64_t hidden = 256;
  int64_t layers = 3;
  int threads = 0;
};

inline void add_options(CLI::App& app, GeneratedModel& arguments) {
  app.add_option("--shape", arguments.shape)->check(CLI::IsMember({"Products", "Reddit", "Arxiv"}));
  app.add_option("--scale", arguments.scale, "factor on the shape's nodes");
  app.add_option("--model", arguments.model)->check(CLI::IsMember({"GraphSAGE", "GCN"}));
  app.add_option("--hidden", arguments.hidden)->check(CLI::PositiveNumber);
  app.add_option("--layers", arguments.layers)->check(CLI::PositiveNumber);
  app.add_option("--threads", arguments.threads, "0: as many as cores");
}

/// Reads the command line into `arguments`, which are among the options of `app`, and prints the JSON
/// object that `measure` gives. Returns the exit code.
template <class Measure>
int run(
    CLI::App& app, int argc, char** argv, const GeneratedModel& arguments, const Measure& measure
) {
  CLI11_PARSE(app, argc, argv);
  try {
    if (arguments.threads > 0) at::set_num_threads(arguments.threads);
    std::cout << measure().dump(2) << '\n';
  } catch (const std::exception& error) {
    std::cerr << argv[0] << ": " << error.what() << '\n';
    return 1;
  }
  return 0;
}

inline graph::Dataset generate(const GeneratedModel& arguments) {
  api::Dataset spec;
  spec.format = api::DatasetFormat::Synthetic;
  spec.synthetic = api::Synthetic{};
  spec.synthetic->scale = api::Decimal{arguments.scale};
  spec.synthetic->shape = arguments.shape == "Reddit"  ? api::SyntheticShape::Reddit
                          : arguments.shape == "Arxiv" ? api::SyntheticShape::Arxiv
                                                       : api::SyntheticShape::Products;
  SilentProgressBar progress;
  return testing::must(graph::load_dataset(spec, {}, progress));
}

inline std::shared_ptr<nn::NodeModel> make_model(
    const GeneratedModel& arguments, const graph::Dataset& data
) {
  torch::manual_seed(0);
  std::shared_ptr<nn::NodeModel> model;
  if (arguments.model == "GCN") {
    model = std::make_shared<nn::GcnImpl>(nn::GcnOptions{
        .in_channels = data.features().width(),
        .hidden_channels = arguments.hidden,
        .out_channels = data.num_classes,
        .layers = arguments.layers
    });
  } else {
    model = std::make_shared<nn::GraphSageImpl>(nn::GraphSageOptions{
        .in_channels = data.features().width(),
        .hidden_channels = arguments.hidden,
        .out_channels = data.num_classes,
        .layers = arguments.layers
    });
  }
  model->eval();
  return model;
}

template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return seconds_since(start);
}

}  // namespace gnn::bench
